#!/bin/sh
# Makes the kernel modules of a guest whose NICs move data: soft RoCE from Debian's source of the guest's kernel, edited by
# rxe_edits.awk, and the modules that it and the NICs need.
#
#   module.sh CACHE
#
#   CACHE           as tests/vm/fetch.sh filled it
#   CACHE/rxe       the modules are left here
#
# Status 77: it cannot be had here; stderr has the reason in one line.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=$1
cannot() {
    echo "$*" >&2
    exit 77
}
download() {
    apt-get -qq -o APT::Sandbox::User=root download "$@" > log 2>&1 || cannot "cannot fetch $*: $(tail -1 log)"
}
# the version of a package in the archive
archive() {
    apt-cache show "$1" 2> /dev/null | sed -n 's/^Version: //p' | head -n 1
}

version=$(cat "$cache/kernel/done")
series=$(echo "$version" | cut -d. -f1,2)
mkdir -p "$cache/rxe"
cd "$cache/rxe"
if [ "$(cat done 2> /dev/null)" = "$version" ] && [ ! "$here/rxe_edits.awk" -nt done ] && [ ! "$here/module.sh" -nt done ]; then
    exit 0
fi
rm -f done
if [ "$(cat source 2> /dev/null)" != "$version" ]; then
    [ "$(id -u)" -eq 0 ] || cannot 'not root: the first run fetches packages with apt-get'
    image=$(archive "linux-image-$version")
    source=$(archive "linux-source-$series")
    # one built for another release would load, and break where a structure has changed
    [ -n "$image" ] && [ "$image" = "$source" ] ||
        cannot "the guest's kernel is $version ${image:-, which the archive has no more}, and linux-source-$series is ${source:-not there}"
    rm -rf tree pristine && mkdir tree
    download "linux-source-$series" "linux-image-$version"
    dpkg-deb --fsys-tarfile linux-source-*.deb | tar -xO --wildcards '*/linux-source-*.tar.xz' |
        tar -xJ -C tree --strip-components=5 --wildcards '*/drivers/infiniband/sw/rxe/*'
    dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x --strip-components=5 --wildcards \
        '*/intel/e1000e/e1000e.ko' \
        '*/configfs/configfs.ko'
    find drivers fs -name '*.ko' -exec mv {} . \;
    rm -rf drivers fs ./*.deb
    cp -a tree pristine
    echo "$version" > source
fi

rm -rf tree
cp -a pristine tree
for file in rxe_verbs.c rxe_resp.c; do
    awk -v file=$file -f "$here/rxe_edits.awk" pristine/$file > tree/$file || cannot "rxe_edits.awk does not fit linux-source-$series"
done
make -s -C "$cache/kernel/headers/usr/src/linux-headers-$version" M="$PWD/tree" CONFIG_RDMA_RXE=m modules > log 2>&1 ||
    { cat log >&2 && exit 125; }
strip --strip-debug -o rdma_rxe.ko tree/rdma_rxe.ko
echo "$version" > done
