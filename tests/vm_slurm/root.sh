#!/bin/sh
# Makes the part of a guest's root file system that has Slurm in it: munge and Slurm with all libraries that they load.
#
#   root.sh FOLDER OBJECT…
#
#   OBJECT   a program or library of this machine that goes into /guest, with the libraries that it needs
#
# Slurm is taken from the packages that tests/slurm/install.sh installs on this machine, or from SLURM_ROOT, the root folder of another
# Debian with the Slurm release that is to be tried (`debootstrap --variant=minbase --include=slurmctld,slurmd,…`).
#
# By environment:
#   ROOT_ALSO   further files of that distribution, separated by blanks; patterns, from the root folder without its `/`
#
# Status 77: this machine has no Slurm, with the reason in one line on stderr.
set -eu

folder=$1
shift
from=${SLURM_ROOT:-}
programs='usr/sbin/munged usr/bin/munge usr/sbin/slurmctld usr/sbin/slurmd usr/sbin/slurmstepd usr/bin/srun usr/bin/sbatch
    usr/bin/sinfo usr/bin/squeue usr/bin/scontrol'
multiarch=usr/lib/x86_64-linux-gnu

mkdir -p "$folder/etc" "$folder/$multiarch" "$folder/usr/bin" "$folder/usr/sbin" "$folder/usr/lib64"
for name in bin sbin lib lib64; do
    ln -sfn "usr/$name" "$folder/$name"
done

# Where a file of that root really is: Debian's alternatives are links by absolute paths.
real() {
    if [ -n "$from" ]; then
        echo "$from$(chroot "$from" readlink -f "/$1")"
    else
        readlink -f "/$1"
    fi
}

# The libraries of an object as its own loader finds them, in its own root.
libraries_of() {
    if [ -n "$from" ]; then
        chroot "$from" ldd "${1#"$from"}"
    else
        ldd "$1"
    fi 2> /dev/null | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p'
}

plugins=
for place in $multiarch/slurm-wlm $multiarch/slurm usr/lib/slurm; do
    if [ -d "$from/$place" ] && [ -z "$plugins" ]; then plugins=$place; fi
done
for program in $programs; do
    if [ ! -h "$from/$program" ] && [ ! -x "$from/$program" ] || [ -z "$plugins" ]; then
        if [ -n "$from" ]; then
            echo "no \`$from/$program\`, or no Slurm plugins: SLURM_ROOT names no Debian with Slurm" >&2
            exit 1
        fi
        echo "no \`$from/$program\`: \`tests/slurm/install.sh\` installs Slurm" >&2
        exit 77
    fi
    cp "$(real "$program")" "$folder/$program"
done
mkdir -p "$folder/$plugins"
# not needed on one node, and half of the megabytes that the guest would unpack
for plugin in "$from/$plugins"/*.so; do
    case ${plugin##*/} in
        openapi_* | rest_* | burst_buffer_* | mpi_pmix* | libslurm_pmi* | node_features_* | *cray* | *_lua.so | jobcomp_[!n]* | \
            acct_gather_*_[!n]*.so | accounting_storage_[!n]* | job_submit_* | serializer_*) ;;
        *) cp -L "$plugin" "$folder/$plugins/" ;;
    esac
done
# shellcheck disable=SC2086  # a list of patterns
also=$(cd "$from/" && ls -d ${ROOT_ALSO:-} 2> "$folder/missing" || true)
if [ -s "$folder/missing" ] && [ -n "${ROOT_ALSO:-}" ]; then
    echo "not there: $(cat "$folder/missing")" >&2
    exit 77
fi
rm -f "$folder/missing"
[ -n "${ROOT_ALSO:-}" ] || also=
for file in $also; do
    mkdir -p "$folder/${file%/*}"
    cp "$(real "$file")" "$folder/$file"
done
for object in "$folder"/usr/sbin/* "$folder"/usr/bin/* "$folder/$plugins"/*.so $also; do
    libraries_of "$from/${object#"$folder/"}"
done | sort -u | while read -r library; do
    mkdir -p "$folder${library%/*}"
    [ -e "$folder$library" ] || cp "$(real "$library")" "$folder$library"
done
# after Slurm's own: the C library must be that of Slurm's distribution, which must not be older than this machine's
mkdir -p "$folder/guest"
for script in gpus slurm each; do cp "$(dirname "$0")/$script.sh" "$folder/guest/"; done
for object; do
    if [ ! -e "$object" ]; then
        echo "no \`$object\`: run \`cargo build --release\`" >&2
        exit 1
    fi
    cp -L "$object" "$folder/guest/"
    strip "$folder/guest/${object##*/}" 2> /dev/null || true # smaller, where there is a strip
    ldd "$object" 2> /dev/null | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | while read -r library; do
        mkdir -p "$folder${library%/*}"
        [ -e "$folder$library" ] || cp -L "$library" "$folder$library"
    done
done
printf '%s\n' 'root:x:0:0:root:/:/bin/sh' 'user:x:1000:1000:user:/tmp:/bin/sh' > "$folder/etc/passwd"
printf '%s\n' 'root:x:0:' 'user:x:1000:' > "$folder/etc/group"
printf '%s\n' 'passwd: files' 'group: files' 'hosts: files' > "$folder/etc/nsswitch.conf"
printf '%s\n' '127.0.0.1 localhost' '192.0.2.1 n0' > "$folder/etc/hosts"
