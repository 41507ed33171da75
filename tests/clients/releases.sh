#!/bin/sh
# Gets other releases of UCX from Debian's archive: downloaded and unpacked, never installed.
#
#   releases.sh CACHE
#
#   CACHE/ucx/NAME/usr     what UCX needs of Debian NAME
#   CACHE/ucx/NAME/done    the version of its package
#
# What cannot be had is said on stderr, and its folder is missing.  Status: always 0.
set -u

cache=$1
cd "$cache" || exit 0
# 1.18, and 1.23 without RDMA, when this was written
for name in trixie sid; do
    if [ -e "ucx/$name/done" ]; then continue; fi
    cannot() { echo "no UCX of Debian $name: $*" >&2; }
    [ "$(id -u)" -eq 0 ] || { cannot 'not root: the first run fetches packages with apt-get' && continue; }
    from=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 2> /dev/null | head -n 1)
    [ -n "$from" ] || { cannot 'apt has no archive of Debian' && continue; }
    rm -rf ucx/new
    mkdir -p ucx/new/apt/lists/partial ucx/new/apt/cache/archives/partial ucx/new/debs
    (
        cd ucx/new || exit 1
        : > apt/status # nothing is installed there
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $from $name main" > apt/sources
        set -- -qq -o Dir::Etc::sourcelist="$PWD/apt/sources" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$PWD/apt/lists" \
            -o Dir::State::status="$PWD/apt/status" -o Dir::Cache="$PWD/apt/cache" -o Dir::Etc::preferencesparts=/dev/null \
            -o APT::Sandbox::User=root -o Acquire::Languages=none
        apt-get "$@" update > log 2>&1 || exit 1
        apt-get "$@" -s --no-install-recommends install libucx0 ibverbs-providers > plan 2> log || exit 1
        # UCX for GPUs would bring their runtimes
        wanted=$(sed -n 's/^Inst \([^ ]*\) .*/\1/p' plan |
            grep -E '^(libc6|libgcc-s1|libucx0|libibverbs1|ibverbs-providers|librdmacm1.*|libnl-.*|libgomp1|libnuma1|libfuse3.*|libze1|libstdc\+\+6)$')
        cd debs || exit 1
        # shellcheck disable=SC2086  # a list of names
        apt-get "$@" download $wanted > ../log 2>&1 || exit 1
        cd .. || exit 1
        for package in debs/*.deb; do dpkg-deb -x "$package" root || exit 1; done
        # of the providers rxe alone, the others would warn
        find root -path '*/libibverbs/*' ! -name 'librxe*' ! -type d -delete
        dpkg-deb -f debs/libucx0_*.deb Version > root/done
        rm -rf root/usr/share
        # packages that are older than the merged /usr
        for place in lib lib64; do
            [ ! -d root/$place ] || { cp -a root/$place/. root/usr/$place/ && rm -r root/$place; }
        done
        mv root "../$name"
    ) || cannot "$(tail -n 1 ucx/new/log ucx/new/debs/log 2> /dev/null | grep . | tail -n 1)"
    rm -rf ucx/new
done
exit 0
