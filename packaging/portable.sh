#!/bin/bash
#
# Builds the libraries and the tool for glibc 2.28 and newer: EL8, Debian 10, Ubuntu 20.04 and what came after.
#
#   portable.sh x86_64|aarch64      into target/portable/ARCH-unknown-linux-gnu/release; prints that folder
#
# Zig's linker knows every glibc's symbols, so that no old distribution is needed, and links the unwinder in, so that no
# libgcc_s is.  cargo-zigbuild and zig come from PyPI into target/portable/tools; NICP_TOOLS names a folder that has both.
# The same source, compiler and zig give the same bytes in any folder: `built-with` beside them names the versions.
# For an architecture of which this toolchain has no standard library (`rustup target add ARCH-unknown-linux-gnu` brings it),
# Debian 13's rustc has one: it is made a root of, with mmdebstrap, in ${XDG_CACHE_HOME:-~/.cache}/nic-placement.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd -P)
arch=${1:-}
case $arch in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    *) sed -n '3,10p' "$0" >&2; exit 2 ;;
esac
glibc=2.28
triple=$arch-unknown-linux-gnu
folder=$here/target/portable
tools=${NICP_TOOLS:-$folder/tools}

say() { echo "portable: $*" >&2; }
die() { say "$*"; exit 1; }

if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
    say "cargo-zigbuild and zig go to \`$tools\`"
    python3 -m venv "$tools" && "$tools/bin/pip" -q install cargo-zigbuild==0.24.1 ziglang==0.17.1 ||
        die 'they cannot be had: python3 with venv and pip is needed, and PyPI'
fi

# what cargo is told: a folder for each architecture, since two compilers do not share one
build=(zigbuild --release --locked --target "$triple.$glibc" --target-dir "$folder"
    -p nic-placement -p nic-placement-cli -p nic-placement-capi)

# in_debian CMD…: cargo of Debian 13, in a mount namespace of its own in which this machine's paths are where they were
in_debian() {
    local root=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nic-placement/rust-trixie home=${CARGO_HOME:-${HOME:-/root}/.cargo}
    if [ ! -e "$root/usr/lib/rustlib/$triple" ]; then
        command -v mmdebstrap > /dev/null || die "no standard library for \`$arch\`: run \`rustup target add $triple\`, or install mmdebstrap"
        [ "$(id -u)" -eq 0 ] || die 'a root of Debian 13 needs root to be made and entered'
        say "making \`$root\`, which takes minutes"
        rm -rf "$root"
        mkdir -p "${root%/*}"
        mmdebstrap --quiet --variant=apt --architectures="amd64,$debian" trixie "$root.new" \
            --include="rustc,cargo,gcc,libc6-dev,ca-certificates,libstd-rust-dev:amd64,libstd-rust-dev:$debian" \
            "${NICP_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | head -n 1)}" >&2 ||
            die 'the root cannot be made'
        mv "$root.new" "$root"
    fi
    mkdir -p "$home"
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -euc '
        root=$1 work=$2
        shift 2
        mount -t tmpfs -o mode=755 tmpfs "$root/mnt"
        mkdir "$root"/mnt/{upper,work,all}
        mount -t overlay -o "lowerdir=$root,upperdir=$root/mnt/upper,workdir=$root/mnt/work" overlay "$root/mnt/all"
        for path in /proc /dev /etc/resolv.conf "$work" "$HOME_OF_CARGO" "$TOOLS"; do
            if [ -d "$path" ]; then mkdir -p "$root/mnt/all$path"; else : >> "$root/mnt/all$path"; fi
            mount --rbind "$path" "$root/mnt/all$path"
        done
        exec chroot "$root/mnt/all" /bin/bash -euc "cd \"\$1\"; shift; exec \"\$@\"" bash "$work" "$@"
    ' bash "$root" "$here" env -u RUSTUP_HOME -u RUSTUP_TOOLCHAIN CARGO_HOME="$home" PATH="$tools/bin:/usr/bin:/bin" \
        CARGO_ZIGBUILD_ZIG_PATH="$zig" XDG_CACHE_HOME="$folder/cache" "$@"
}

# the wheel's own program: its python would be another one in Debian's root
zig=$(echo "$tools"/lib/python3*/site-packages/ziglang/zig)
[ -x "$zig" ] || die "no zig in \`$tools\`"
mkdir -p "$folder"
export CARGO_ZIGBUILD_ZIG_PATH=$zig CARGO_INCREMENTAL=0
cd "$here"
sysroot=$(rustc --print sysroot)
# panics name files of the source: a crate's by where cargo unpacked it, and with `rust-src` the toolchain's own copy of std
cargo fetch --locked --target "$triple" >&2
names=("$here=/nic-placement" "$sysroot/lib/rustlib/src/rust=/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')")
for crates in "${CARGO_HOME:-${HOME:-/root}/.cargo}"/registry/src/*; do names+=("$crates=/crates"); done
CARGO_ENCODED_RUSTFLAGS=$(printf -- '\x1f--remap-path-prefix=%s' "${names[@]}" | cut -c2-)
export CARGO_ENCODED_RUSTFLAGS
if [ -d "$sysroot/lib/rustlib/$triple/lib" ]; then
    PATH=$tools/bin:$PATH cargo "${build[@]}" >&2
    compiler=$(rustc -V)
else
    export HOME_OF_CARGO=${CARGO_HOME:-${HOME:-/root}/.cargo} TOOLS=$tools
    in_debian cargo "${build[@]}" >&2
    compiler=$(in_debian rustc -V)
fi
printf '%s\nzig %s\n%s\n' "$compiler" "$("$zig" version)" "$("$tools/bin/cargo-zigbuild" -V)" \
    > "$folder/$triple/release/built-with"
echo "$folder/$triple/release"
