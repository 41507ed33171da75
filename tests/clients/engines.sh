#!/bin/sh
# Gets NIXL and Mooncake from PyPI, for this machine's Python.
#
#   engines.sh CACHE
#
#   CACHE/engines/{nixl,mooncake}     the wheels, unpacked, without what is for GPUs
#
# What cannot be had is said on stderr, and its folder is missing.  Status: always 0.
set -u

cd "$1" || exit 0
libraries=/usr/lib/x86_64-linux-gnu
# unpacked PACKAGE…: into this folder
unpacked() {
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d . "$@" || return 1
    for wheel in *.whl; do python3 -m zipfile -e "$wheel" . && rm "$wheel" || return 1; done
}
nixl() {
    unpacked nixl-cu12==1.5.1 || return 1
    # its own looks for soft RoCE's provider in a folder that Debian has not
    for verbs in ibverbs mlx5; do ln -sf $libraries/lib$verbs.so.1 nixl_cu12.libs/lib$verbs-*.so.* || return 1; done
}
mooncake() {
    unpacked mooncake-transfer-engine==0.3.13.post1 nvidia-cuda-runtime-cu12==12.9.79 || return 1
    rm mooncake/*_pg* mooncake/pg_* mooncake/store.so mooncake/transfer_engine_bench
    mv nvidia/cuda_runtime/lib/libcudart.so.12 . || return 1
    # a driver without a GPU: 100 is CUDA_ERROR_NO_DEVICE
    nm -D --undefined-only mooncake/engine.so > names &&
        sed -n 's/^ *U \(cu[A-Z][A-Za-z0-9_]*\)$/int \1(void) { return 100; }/p' names | gcc -x c -shared -fPIC -o libcuda.so.1 -
}

for name in nixl mooncake; do
    [ ! -e "engines/$name" ] || continue
    rm -rf engines-new
    mkdir -p engines engines-new
    if (cd engines-new && $name) > engines.log 2>&1; then mv engines-new "engines/$name"; else echo "no $name: $(tail -n 1 engines.log)" >&2; fi
done
exit 0
