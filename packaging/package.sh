#!/bin/bash
#
# Makes a package of what `make install` installs, built for glibc 2.28 and newer.
#
#   package.sh deb|rpm ARCH VERSION RELEASE      prints the package's path below target/packages
#
# One package holds all: the plugin and the tool belong together, and the launchers' library with its header is small.
# The plugin lies in /usr/lib/nic-placement on every distribution and architecture, since one plugstack.conf serves a cluster
# of several.  The same input gives the same bytes, dated by the last commit or SOURCE_DATE_EPOCH.
#
# Knobs: NICP_BUILT, a folder with the libraries and the tool for ARCH, in place of packaging/portable.sh's.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
kind=${1:-} arch=${2:-} version=${3:-} release=${4:-}
case $kind-$arch in
    deb-x86_64) name=amd64 libdir=/usr/lib/x86_64-linux-gnu ;;
    deb-aarch64) name=arm64 libdir=/usr/lib/aarch64-linux-gnu ;;
    rpm-x86_64 | rpm-aarch64) name=$arch libdir=/usr/lib64 ;;
    *) sed -n '3,12p' "$0" >&2; exit 2 ;;
esac
need() { command -v "$1" > /dev/null || { echo "package: no \`$1\`: Debian has it in $2" >&2; exit 1; }; }
need readelf binutils
need python3 'python3 and python3-venv'
if [ "$kind" = deb ]; then need dpkg-deb dpkg; else need rpmbuild rpm; fi
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)}
export SOURCE_DATE_EPOCH
out=$PWD/target/packages
staged=$out/$kind-$arch

# the tool prints its own completions, so one is needed that runs here
built=${NICP_BUILT:-$("$here/portable.sh" "$arch")}
tool=$built/nic-placement
if [ "$arch" != "$(uname -m)" ]; then tool=$("$here/portable.sh" "$(uname -m)")/nic-placement; fi

rm -rf "$staged"
mkdir -p "$staged"
make --silent --no-print-directory install "built=$built" "tool=$tool" prefix=/usr "libdir=$libdir" \
    plugindir=/usr/lib/nic-placement unitdir=/usr/lib/systemd/system "DESTDIR=$staged"
# by what it was built, which the lists of parts cannot say
if [ -e "$built/built-with" ]; then install -m 644 "$built/built-with" "$staged/usr/share/doc/nic-placement/built-with"; fi
gzip -9n "$staged"/usr/share/man/man*/*

# glibc: the newest version of a symbol that a file wants of it
glibc=$(find "$staged/usr" -name '*.so*' -type f -o -path '*/bin/*' -type f | xargs readelf -WV |
    grep -o 'Name: GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -n 1)
[ -n "$glibc" ] || { echo "package: no symbol of glibc is wanted" >&2; exit 1; }

if [ "$kind" = deb ]; then
    mkdir "$staged/DEBIAN"
    install -m 755 "$here"/deb/{postinst,prerm,postrm} "$staged/DEBIAN"
    echo 'activate-noawait ldconfig' > "$staged/DEBIAN/triggers"
    soname=$(cd "$staged$libdir" && echo libnic_placement_core.so.[0-9])
    echo "${soname%.so.*} ${soname##*.so.} nic-placement (>= $version)" > "$staged/DEBIAN/shlibs"
    # rpm finds what a library provides only if it is executable; Debian wants it not to be
    chmod 644 "$staged$libdir/$soname".* "$staged/usr/lib/nic-placement/libnic_placement.so"
    # the change log that Debian's policy asks for
    {
        printf 'nic-placement (%s-%s) unstable; urgency=medium\n\n  * See CHANGELOG.md in this folder.\n\n' "$version" "$release"
        printf ' -- The nic-placement authors <nobody@localhost>  %s\n' "$(date -Ru -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n > "$staged/usr/share/doc/nic-placement/changelog.Debian.gz"
    sed -e "s/@version@/$version-$release/" -e "s/@arch@/$name/" -e "s/@glibc@/$glibc/" \
        -e "s/@size@/$(du -sk --apparent-size "$staged/usr" | cut -f1)/" "$here/deb/control" > "$staged/DEBIAN/control"
    (cd "$staged" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$staged/DEBIAN/md5sums"
    find "$staged" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    file=$out/nic-placement_$version-${release}_$name.deb
    dpkg-deb --root-owner-group -Zxz --build "$staged" "$file" > /dev/null
else
    find "$staged" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    # every file
    (cd "$staged" && find . ! -type d -printf '/%P\n' | sort) > "$out/files-$arch"
    # its own folders, and those that go with it where the packages that also have them are missing
    (cd "$staged" && find . -type d -path '*/nic-placement*' -printf '%%dir /%P\n' | sort) >> "$out/files-$arch"
    printf '%%dir %s\n' "$libdir/pkgconfig" \
        /usr/share/fish{,/vendor_completions.d} /usr/share/zsh{,/site-functions} >> "$out/files-$arch"
    file=$out/nic-placement-$version-$release.$name.rpm
    rpmbuild -bb --quiet --target "$name" --define "_topdir $out/rpm" --define "_rpmdir $out" \
        --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' --define "nicp_version $version" \
        --define "nicp_release $release" --define "nicp_staged $staged" --define "nicp_files $out/files-$arch" \
        --define "nicp_date $(LC_ALL=C date -ud "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" "$here/rpm/nic-placement.spec" >&2
fi
echo "$file"
