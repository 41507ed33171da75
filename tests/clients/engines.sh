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
for package in nixl-cu12==1.5.1 mooncake-transfer-engine==0.3.13.post1; do
    name=${package%%-*}
    if [ -e "engines/$name" ]; then continue; fi
    new=engines/new
    rm -rf $new
    mkdir -p $new
    [ $name = nixl ] || package="$package nvidia-cuda-runtime-cu12==12.9.79"
    # shellcheck disable=SC2086  # a list of packages
    if ! python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d $new $package 2> engines/log; then
        echo "no $package: $(tail -n 1 engines/log)" >&2
        continue
    fi
    for wheel in $new/*.whl; do python3 -m zipfile -e "$wheel" $new && rm "$wheel"; done
    if [ $name = nixl ]; then
        # its own looks for soft RoCE's provider in a folder that Debian has not
        for verbs in ibverbs mlx5; do ln -sf $libraries/lib$verbs.so.1 $new/nixl_cu12.libs/lib$verbs-*.so.*; done
    else
        rm $new/mooncake/*_pg* $new/mooncake/pg_* $new/mooncake/store.so $new/mooncake/transfer_engine_bench
        mv $new/nvidia/cuda_runtime/lib/libcudart.so.12 $new/
        # a driver without a GPU: 100 is CUDA_ERROR_NO_DEVICE
        nm -D --undefined-only $new/mooncake/engine.so | sed -n 's/^ *U \(cu[A-Z][A-Za-z0-9_]*\)$/int \1(void) { return 100; }/p' |
            gcc -x c -shared -fPIC -o $new/libcuda.so.1 - || continue
    fi
    mv $new "engines/$name"
done
exit 0
