#!/bin/bash
#
# Makes target/first-hour/, and target/first-hour.tar.gz of it: all that first.sh needs on a machine that has a GPU and nothing
# else.  Prints the archive's name.
#
#   pack.sh              the portable library and tool (packaging/portable.sh, PyPI), and this Debian's Slurm (apt)
#   pack.sh LIBRARY TOOL these two files in their place
#
# Slurm and munge are those that tests/slurm/install.sh installs; each program and plugin comes with the libraries that it
# needs, the C library and its loader too, so that they run on distributions with an older one.  patchelf tells them where their
# libraries lie; first.sh tells the kernel where the loader is, once it knows.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
target=${CARGO_TARGET_DIR:-$root/target}
folder=$target/first-hour
# the lent machines take a working tree of 64 MiB at most
most=60000000

say() { echo "first-hour: $*" >&2; }
die() { say "$*"; exit 1; }

[ "$(uname -m)" = x86_64 ] || die "it is made on x86_64, for x86_64"
"$root/tests/slurm/install.sh" >&2
if ! command -v patchelf > /dev/null; then apt-get -qq install -y --no-install-recommends patchelf >&2; fi
if [ $# -eq 2 ]; then
    library=$1 tool=$2
else
    built=$("$root/packaging/portable.sh" x86_64)
    library=$built/libnic_placement.so tool=$built/nic-placement
fi

rm -rf "$folder"
mkdir -p "$folder"/{bin,lib,slurm/bin,slurm/lib,slurm/plugins}
cp "$here"/first.sh "$here"/*.py "$folder"
install -m 755 "$tool" "$folder/bin/nic-placement"
install -m 644 "$library" "$folder/lib/libnic_placement.so"
strip --strip-unneeded "$folder/bin/nic-placement" "$folder/lib/libnic_placement.so" 2> /dev/null || true

slurm=$folder/slurm
plugins=$(dirname "$(dpkg -L slurm-wlm-basic-plugins | grep /select_cons_tres.so)")
for program in munged munge slurmctld slurmd slurmstepd srun sinfo scontrol; do
    install -m 755 "$(readlink -f "$(PATH=$PATH:/usr/sbin:/sbin command -v $program)")" "$slurm/bin/$program"
done
# without the interfaces of other programs: REST, accounting, Lua, PMIx, Cray
for plugin in "$plugins"/*.so; do
    case ${plugin##*/} in
        openapi_* | serializer_* | rest_* | *lua* | *cray* | *pmix* | *slurmdbd* | *_knl_* | *lustre* | libslurm_pmi.so | jobcomp_*script.so) ;;
        *) install -m 644 "$plugin" "$slurm/plugins" ;;
    esac
done
# the closure: ldd tells what the loader takes here, by name and place
needed() { ldd "$@" 2> /dev/null | sed -n 's/.* => \(\/[^ ]*\) (.*/\1/p' | sort -u; }
needed "$slurm"/bin/* "$slurm"/plugins/*.so | while read -r library; do
    case $library in "$plugins"/*) ;; *) install -m 644 "$(readlink -f "$library")" "$slurm/lib/${library##*/}" ;; esac
done
# libgcc_s.so.1 glibc loads when a thread is ended; a plugin for glibc 2.28 names the parts that have been in libc.so.6 since 2.34
for library in libgcc_s.so.1 ld-linux-x86-64.so.2 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1; do
    install -m 755 "$(readlink -f "$(gcc -print-file-name=$library)")" "$slurm/lib/$library"
done
# DT_RPATH, which goes before a LD_LIBRARY_PATH of the machine's and holds for what a library needs in turn
patchelf --force-rpath --set-rpath '$ORIGIN/../plugins:$ORIGIN/../lib' "$slurm"/bin/*
patchelf --force-rpath --set-rpath '$ORIGIN:$ORIGIN/../lib' "$slurm"/plugins/*.so
for library in "$slurm"/lib/*; do
    # the loader has no dynamic section of its own to write, and the C library and its parts need nothing else
    case ${library##*/} in ld-linux* | libc.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | libutil.so.1) ;; *) patchelf --force-rpath --set-rpath '$ORIGIN' "$library" ;; esac
done
{
    git -C "$root" describe --always --dirty 2> /dev/null || true
    dpkg-query -W slurmd slurmctld slurm-wlm-basic-plugins munge libc6
} > "$folder/made-of"

tar -C "$target" --sort=name --owner=0 --group=0 --numeric-owner -czf "$folder.tar.gz" first-hour
bytes=$(du -sb --apparent-size "$folder" | cut -f1)
say "$((bytes / 1000000)) MB, packed $(($(stat -c %s "$folder.tar.gz") / 1000000)) MB"
[ "$bytes" -le "$most" ] || die "\`$folder\` is larger than $((most / 1000000)) MB"
echo "$folder.tar.gz"
