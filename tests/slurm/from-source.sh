#!/bin/bash
#
# Slurm as sites build it: from source, in roots of their own, and the end-to-end cases on each.
#
#   from-source.sh DIR…     build each source tree DIR twice, with a shared libslurm and without (--without-shared-libslurm), install
#                           each into a root of this machine's distribution, and run the cases on it, all with the same library.
#                           The outcome goes where `releases.sh run` puts it
#
# A tree is what Slurm's archive or repository has; nothing is written into it.  What was built and installed is kept in
# ${XDG_CACHE_HOME:-~/.cache}/nic-placement (0.5 GB each) and used again.  Needs root and apt; some ten minutes for each build on two cores.
#
# Knobs: NICP_BUILDS, `shared`, `static` or both; NICP_CASES, words that the names of cases have; NIC_PLACEMENT_SO, the library.
set -eu
# else a build that fails inside of `$(…)` would go on
shopt -s inherit_errexit

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nic-placement
needed='gcc make libmunge-dev libhwloc-dev libjson-c-dev debootstrap'

say() { echo "from-source: $*" >&2; }

# a root of this distribution with what Slurm's programs load, and no Slurm
base() {
    local base=$cache/base
    if [ ! -e "$base/usr/sbin/munged" ]; then
        say "making \`$base\`"
        rm -rf --one-file-system "$base" "$base.new"
        debootstrap --variant=minbase --include=munge,procps,runc,libhwloc15,libjson-c5,libdbus-1-3,libnuma1,libreadline8 \
            "$(. /etc/os-release; echo "$VERSION_CODENAME")" "$base.new" "$("$here/releases.sh" archive Debian)" > "$cache/base.log"
        rm -rf "$base.new"/var/cache/apt/archives/*.deb "$base.new"/var/lib/apt/lists/*
        mv "$base.new" "$base"
    fi
    echo "$base"
}

# build TREE BUILD: prints the root that has it
build() {
    local tree=$1 name version options=() work root
    version=$(sed -n 's/^[[:space:]]*Version:[[:space:]]*//p' "$tree/META")
    name=slurm-source-$2-$version work=$cache/$name.work root=$cache/$name
    if [ ! -x "$root/usr/sbin/slurmd" ]; then
        say "building $version, $2, in \`$work\`"
        if [ "$2" = static ]; then options=(--without-shared-libslurm); fi
        mkdir -p "$work"
        cd "$work"
        # nodes of one machine need the last one; the parts left out are documents, tests and contributions
        "$tree/configure" --prefix=/usr --sysconfdir=/etc/slurm --disable-slurmrestd "${options[@]}" --enable-multiple-slurmd > configure.log 2>&1
        make -C src -j "$(nproc)" > make.log 2>&1
        rm -rf --one-file-system "$root.new"
        cp -a "$(base)" "$root.new"
        make -C src install DESTDIR="$root.new" > install.log 2>&1
        # of 26.11 and later
        if [ -e "$tree/src/interfaces/runtime.h" ]; then
            cc -shared -fPIC -I. -I"$tree" -o "$root.new/usr/lib/slurm/runtime_played.so" "$here/runtime.c"
        fi
        mv "$root.new" "$root"
    fi
    echo "$root"
}

[ $# -gt 0 ] || { sed -n '3,12p' "$0"; exit 2; }
apt-get -qq install -y --no-install-recommends $needed > /dev/null
mkdir -p "$cache"
folders=
for tree; do
    for build in ${NICP_BUILDS:-shared static}; do
        [ -x "$tree/configure" ] || { say "\`$tree\` is no source tree of Slurm: it has no configure"; exit 2; }
        tree=$(readlink -f "$tree")
        root=$(build "$tree" "$build")
        folders+="source-$build $root"$'\n'
    done
done
# shellcheck disable=SC2086
NICP_FOLDERS=$folders exec "$here/releases.sh" run ${NICP_CASES:-}
