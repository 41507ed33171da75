#!/bin/bash
#
# Makes what a release consists of, from what is committed: the source archive, the packages that are built of it, what is
# linked into each file (CycloneDX), and SHA256SUMS of all.
#
#   dist.sh [ARCH…]         into target/dist; without ARCH the archive alone; prints the files' paths
#
# A commit gives the same archive, and the archive the same packages, in any folder and on any day, with the programs that
# `built-with-ARCH` names.  MAINTAINER and HOMEPAGE are part of the packages.
set -eu

cd "$(dirname "$0")/.."
out=$PWD/target/dist
name=nic-placement-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
umask 022
rm -rf "$out"
mkdir -p "$out/build"
if [ -n "$(git status --porcelain)" ]; then echo 'dist: what is not committed is left out' >&2; fi
git -c tar.umask=0022 archive --prefix="$name/" HEAD | xz -T1 > "$out/$name.tar.xz"
if [ $# -gt 0 ]; then
    export NICP_TOOLS=${NICP_TOOLS:-$PWD/target/portable/tools}
    tar -xf "$out/$name.tar.xz" -C "$out/build"
    for arch; do
        make --no-print-directory -C "$out/build/$name" deb rpm "arch=$arch" >&2
        {
            cat "$out/build/$name/target/portable/$arch-unknown-linux-gnu/release/built-with"
            for program in dpkg-deb rpmbuild xz; do $program --version | head -n 1; done
        } > "$out/built-with-$arch"
    done
    mv "$out/build/$name"/target/packages/*.{deb,rpm} "$out/build/$name"/packaging/sbom/*.cdx.json "$out"
fi
rm -rf "$out/build"
cd "$out"
sha256sum -- * > SHA256SUMS
printf "$out/%s\n" *
