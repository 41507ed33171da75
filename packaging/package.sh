#!/bin/bash
#
# Makes packages of what `make install` installs, built for glibc 2.28 and newer: the tool, Slurm's plugin, the launchers' library,
# and what a build against that needs.
#
#   package.sh deb|rpm ARCH VERSION RELEASE      prints the packages' paths below target/packages
#
# The plugin lies in /usr/lib/nic-placement on every distribution and architecture, since one plugstack.conf serves a cluster
# of several.  The same input gives the same bytes in any folder: its date is the last commit's, which packaging/date holds in a
# source archive, or SOURCE_DATE_EPOCH.
#
# Knobs: NIC_PLACEMENT_SLURM_RELEASE=25.05, the one release of Slurm that may load the library, which the packages' version and
# description then name; NICP_BUILT, a folder with the libraries and the tool for ARCH, in place of packaging/portable.sh's;
# NICP_TOOL, for another architecture than this machine's: a tool of the same source that runs here and prints the completions;
# MAINTAINER='NAME <ADDRESS>' and HOMEPAGE=URL, which the packages name.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
kind=${1:-} arch=${2:-} version=${3:-} slurm=${NIC_PLACEMENT_SLURM_RELEASE:-}
release=${4:-}${slurm:++slurm$slurm} serves=${slurm:-22.05 to 26.11}
case $kind-$arch in
    deb-x86_64) name=amd64 libdir=/usr/lib/x86_64-linux-gnu ;;
    deb-aarch64) name=arm64 libdir=/usr/lib/aarch64-linux-gnu ;;
    rpm-x86_64 | rpm-aarch64) name=$arch libdir=/usr/lib64 ;;
    *) sed -n '3,14p' "$0" >&2; exit 2 ;;
esac
need() { command -v "$1" > /dev/null || { echo "package: no \`$1\`: Debian has it in $2" >&2; exit 1; }; }
need readelf binutils
need python3 'python3 and python3-venv'
if [ "$kind" = deb ]; then need dpkg-deb dpkg; else need rpmbuild rpm; fi
umask 022
export LC_ALL=C TZ=UTC
# `git archive` writes the seconds into this file; in a checkout it holds the format
date=$(cat "$here/date")
case $date in *[!0-9]*) date=$(git log -1 --format=%ct) ;; esac
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$date}
out=$PWD/target/packages
staged=$out/$kind-$arch

built=${NICP_BUILT:-$("$here/portable.sh" "$arch")}
# the tool prints its own completions, so one is needed that runs here
tool=$built/nic-placement
if [ "$arch" != "$(uname -m)" ]; then tool=${NICP_TOOL:-$("$here/portable.sh" "$(uname -m)")/nic-placement}; fi

if [ -z "${MAINTAINER:-}" ]; then echo "package: no MAINTAINER='NAME <ADDRESS>': the packages name nobody@localhost" >&2; fi
if [ -z "${HOMEPAGE:-}" ]; then echo 'package: no HOMEPAGE=URL: the packages name no home' >&2; fi
MAINTAINER=${MAINTAINER:-The nic-placement authors <nobody@localhost>} HOMEPAGE=${HOMEPAGE:-}

rm -rf "$staged"
mkdir -p "$staged"
make --silent --no-print-directory install "built=$built" "tool=$tool" prefix=/usr "libdir=$libdir" \
    plugindir=/usr/lib/nic-placement unitdir=/usr/lib/systemd/system "HOMEPAGE=$HOMEPAGE" "DESTDIR=$staged"
# by what it was built, which the lists of parts cannot say
if [ -e "$built/built-with" ]; then install -m 644 "$built/built-with" "$staged/usr/share/doc/nic-placement/built-with"; fi
gzip -9n "$staged"/usr/share/man/man*/*

# glibc: the newest version of a symbol that a file wants of it
glibc=$(find "$staged/usr" -name '*.so*' -type f -o -path '*/bin/*' -type f | xargs readelf -WV |
    grep -o 'Name: GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -n 1)
[ -n "$glibc" ] || { echo "package: no symbol of glibc is wanted" >&2; exit 1; }

# the packages
tool_part=nic-placement plugin_part=slurm-spank-nic-placement library_part=libnic-placement-core0
devel_part=libnic-placement-core-dev
if [ "$kind" = rpm ]; then devel_part=libnic-placement-core-devel; fi
# part_of FILE: the package that has it.  The documents stay together with the examples to which their links lead
part_of() {
    case $1 in
        *.so.* | */libnic_placement_core.cdx.json) echo $library_part ;;
        */libnic_placement_core.so | /usr/include/* | */pkgconfig/*) echo $devel_part ;;
        /usr/lib/nic-placement/* | */90-nic-placement.conf | */man8/* | */libnic_placement.cdx.json) echo $plugin_part ;;
        /usr/share/licenses/*) basename "$(dirname "$1")" ;;
        *) echo $tool_part ;;
    esac
}

# size_of FOLDER: in KiB, as Debian's policy counts it; `du` counts folders by the file system's own size of them
size_of() { find "$1" -printf '%y %s\n' | awk '{ size += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print size }'; }

if [ "$kind" = deb ]; then
    parts=$staged/parts
    (cd "$staged" && find usr ! -type d) | while read -r file; do
        into=$parts/$(part_of "/$file")/$(dirname "$file")
        mkdir -p "$into" && mv "$staged/$file" "$into/"
    done
    doc=$parts/$tool_part/usr/share/doc/$tool_part
    soname=$(cd "$parts/$library_part$libdir" && echo libnic_placement_core.so.[0-9])
    # rpm finds what a library provides only if it is executable; Debian wants it not to be
    chmod 644 "$parts/$library_part$libdir/$soname" "$parts/$plugin_part/usr/lib/nic-placement/libnic_placement.so"
    for part in $tool_part $plugin_part $library_part $devel_part; do
        tree=$parts/$part
        mkdir -p "$tree/DEBIAN" "$tree/usr/share/doc/$part"
        for script in postinst prerm postrm; do
            if [ -e "$here/deb/$part.$script" ]; then install "$here/deb/$part.$script" "$tree/DEBIAN/$script"; fi
        done
        # the licences and the change log that Debian's policy asks for
        if [ $part != $tool_part ]; then install -m 644 -t "$tree/usr/share/doc/$part" "$doc/copyright" "$doc/licenses.txt"; fi
        {
            printf '%s (%s-%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of nic-placement.\n\n' $tool_part "$version" "$release"
            printf ' -- %s  %s\n' "$MAINTAINER" "$(date -Ru -d "@$SOURCE_DATE_EPOCH")"
        } | gzip -9n > "$tree/usr/share/doc/$part/changelog.Debian.gz"
        if [ $part = $library_part ]; then
            echo 'activate-noawait ldconfig' > "$tree/DEBIAN/triggers"
            echo "${soname%.so.*} ${soname##*.so.} $part (>= $version)" > "$tree/DEBIAN/shlibs"
        fi
        {
            printf '%s\n' "Package: $part" "Version: $version-$release" "Architecture: $name" "Maintainer: $MAINTAINER" \
                ${HOMEPAGE:+"Homepage: $HOMEPAGE"} "Installed-Size: $(size_of "$tree/usr")" \
                'Priority: optional'
            if [ $part != $tool_part ]; then echo "Source: $tool_part"; fi
            # what one package had before it was divided is three others' now
            if [ $part != $tool_part ]; then printf '%s: nic-placement (<< %s)\n' Breaks "$version" Replaces "$version-$release"; fi
            # its paragraph, without the name
            awk -v RS= -v part=$part '$2 == part' "$here/deb/control" | sed -e 1d -e "s/@version@/$version-$release/" \
                -e "s/@glibc@/$glibc/" -e "s/@slurm@/$serves/"
        } > "$tree/DEBIAN/control"
        (cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$tree/DEBIAN/md5sums"
        find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
        file=$out/${part}_$version-${release}_$name.deb
        dpkg-deb --root-owner-group -Zxz --build "$tree" "$file" > /dev/null
        echo "$file"
    done
else
    for part in $tool_part $plugin_part $library_part $devel_part; do
        install -D -m 644 -t "$staged/usr/share/licenses/$part" LICENSE-APACHE LICENSE-MIT packaging/licenses.txt
        : > "$out/files-$arch-$part"
    done
    find "$staged" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    # every file, its package's own folders, and those that go with it where the packages that also have them are missing
    (cd "$staged" && find . ! -type d -printf '/%P\n' | sort) | while read -r file; do
        part=$(part_of "$file")
        case $file in
            /usr/share/licenses/*) echo "%license $file" ;;
            *) echo "$file" ;;
        esac >> "$out/files-$arch-$part"
        folder=${file%/*}
        while [ "$folder" != /usr ]; do
            case $folder in
                */$part* | */nic-placement* | */pkgconfig | */fish | */vendor_completions.d | */zsh | */site-functions)
                    echo "%dir $folder" >> "$out/files-$arch-$part" ;;
            esac
            folder=${folder%/*}
        done
    done
    for part in $tool_part $plugin_part $library_part $devel_part; do sort -uo "$out/files-$arch-$part"{,}; done
    rpmbuild -bb --quiet --target "$name" --define "_topdir $out/rpm" --define "_rpmdir $out" \
        --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define "nicp_version $version" \
        --define "nicp_release $release" --define "nicp_staged $staged" --define "nicp_files $out/files-$arch" \
        --define "nicp_slurm $serves" --define "nicp_maintainer $MAINTAINER" ${HOMEPAGE:+--define "nicp_homepage $HOMEPAGE"} \
        --define "nicp_date $(date -ud "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" "$here/rpm/nic-placement.spec" >&2
    for part in $tool_part $plugin_part $library_part $devel_part; do echo "$out/$part-$version-$release.$name.rpm"; done
fi
