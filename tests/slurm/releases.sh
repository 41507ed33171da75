#!/bin/bash
#
# Other releases of Slurm beside this machine's own: Debian's and Ubuntu's packages, each in a folder of its own.
#
#   releases.sh folders          make the folders that are missing; print `NAME FOLDER` of each that is there
#   releases.sh run [WORD…]      the end-to-end cases (those with a WORD in their name) on this machine's Slurm and on
#                                each folder's, all with the same library.  Without a WORD, the outcome is recorded in
#                                tests/slurm/releases.tsv, from which docs/releases.md is made.  What did not run now keeps
#                                its line, if it is of the same library
#   releases.sh clean            remove the folders
#
# The folders (0.3 GB each) are kept in ${XDG_CACHE_HOME:-~/.cache}/nic-placement, so that only the first run downloads.
# If a release cannot be downloaded, the script says so and goes on.  Needs root, and debootstrap to make folders.
#
# Knobs: NICP_RELEASES, the names of the wanted releases (see `known`); NICP_FOLDERS, lines `NAME FOLDER` in place of all that, as
# from-source.sh gives them; NIC_PLACEMENT_SO, the library; NICP_UBUNTU_MIRROR, the archive of Ubuntu.  Else the archives are
# those that apt has packages from, or debootstrap's own.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
repository=$(readlink -f "$here/../..")
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nic-placement
record=$here/releases.tsv

# the distributions with another Slurm than Debian 12's 22.05: 24.11, 26.05, 23.11, 25.11 when this was written.  Trixie
# comes first, because it has the key with which Ubuntu signs.
known='trixie sid noble resolute'
packages=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,munge,procps

say() { echo "releases: $*" >&2; }

# archive DISTRIBUTION: the first archive of it that apt has packages from
archive() {
    apt-get indextargets --format '$(REPO_URI)' "Origin: $1" "Label: $1" | sed 's,/$,,' | head -n 1
}

# A debootstrap that failed leaves the system's own /proc mounted there, and must not be followed into it.
discard() {
    local folder mounted
    for folder; do
        for mounted in $(cut -d' ' -f2 /proc/mounts | grep "^$folder/" | sort -r); do umount "$mounted"; done
        rm -rf --one-file-system "$folder"
    done
}

make_folder() {
    local name=$1 folder=$cache/slurm-$1 new=$cache/slurm-$1.new log=$cache/$1.log
    # all of Ubuntu's releases share one script, and this debootstrap may not know the newer ones
    local mirror include=$packages options=() script=()
    if ! command -v debootstrap > /dev/null && ! apt-get -qq install -y --no-install-recommends debootstrap > /dev/null
    then
        say "no \`debootstrap\` here, without which \`$name\` cannot be had"
        return 1
    fi
    case $name in
        noble | resolute)
            script=(gutsy)
            mirror=${NICP_UBUNTU_MIRROR:-$(archive Ubuntu)}
            options=(--components=main,universe
                --keyring="$cache/slurm-trixie/usr/share/keyrings/ubuntu-archive-keyring.gpg") ;;
        *)
            mirror=$(archive Debian)
            if [ "$name" = trixie ]; then include+=,ubuntu-keyring; fi ;;
    esac
    # without one, debootstrap takes its own default
    say "making \`$folder\` from ${mirror:-the archive that debootstrap knows}, which takes minutes"
    discard "$new"
    mkdir -p "$cache"
    if ! debootstrap --variant=minbase --include="$include" "${options[@]}" "$name" "$new" "$mirror" "${script[@]}" \
        > "$log" 2>&1; then
        say "\`$name\` cannot be had: $(tail -n 1 "$log") (\`$log\`)"
        discard "$new"
        return 1
    fi
    rm -rf "$new"/var/cache/apt/archives/*.deb "$new"/var/lib/apt/lists/*
    mv "$new" "$folder"
}

folders() {
    local name
    mkdir -p "$cache"
    # two of these at once would take each other's folders apart
    exec 9> "$cache/lock"
    flock 9
    for name in ${NICP_RELEASES-$known}; do
        if [ -x "$cache/slurm-$name/usr/sbin/slurmd" ] || make_folder "$name"; then echo "$name $cache/slurm-$name"; fi
    done
}

# suite FOLDER WORD…: prints what the suite prints; the last line has the counts
suite() {
    local folder=$1
    shift
    (cd "$repository" && NICP_ROOT=$folder "${CARGO:-cargo}" test --locked --quiet --test end_to_end -- "$@" 2>&1)
}

run() {
    local library distribution folder release text counts passed failed skipped code=0 start new
    library=$(readlink -f "${NIC_PLACEMENT_SO:-${CARGO_TARGET_DIR:-$repository/target}/release/libnic_placement.so}")
    export NIC_PLACEMENT_SO=$library
    new=$(mktemp)
    # shellcheck disable=SC2064
    trap "rm -f '$new'" EXIT
    printf '# made by tests/slurm/releases.sh run\n# slurm\tfrom\tpassed\tfailed\tskipped\tsha256 of the library\n' > "$new"
    if [ -z "${NICP_FOLDERS:=}" ]; then
        if [ -z "${NICP_RELEASES+set}" ]; then NICP_FOLDERS="$(. /etc/os-release; echo "$VERSION_CODENAME") /"$'\n'; fi
        NICP_FOLDERS+=$(folders)
    fi
    while read -r distribution folder; do
        release=$(chroot "$folder" slurmd -V) || continue
        release=${release#* }
        release=${release%%-*}
        start=$SECONDS
        if ! text=$(suite "$folder" "$@"); then code=1; fi
        grep -v '^ok ' <<< "$text" || true
        counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' <<< "$text" | tail -n 1)
        if [ -z "$counts" ]; then say "nothing was counted on $release"; code=1; continue; fi
        read -r passed failed skipped <<< "$counts"
        say "Slurm $release of $distribution: $passed passed, $failed failed, $skipped skipped, $((SECONDS - start)) s"
        printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$release" "$distribution" "$passed" "$failed" "$skipped" \
            "$(sha256sum "$library" | cut -d' ' -f1)" >> "$new"
    done < <(sed '/^$/d' <<< "$NICP_FOLDERS")
    say "the library of all: $(sha256sum "$library" | cut -d' ' -f1)"
    # record only complete runs
    if [ $# -eq 0 ]; then
        if [ -r "$record" ]; then
            tail -n +3 "$record" | grep -F "$(sha256sum "$library" | cut -d' ' -f1)" |
                grep -vF -f <(tail -n +3 "$new" | cut -f1,2) >> "$new" || true
        fi
        { head -n 2 "$new"; tail -n +3 "$new" | sort -V; } > "$record"
        say "recorded in $record; \`BLESS=1 cargo test --test docs\` brings it into docs/releases.md"
    fi
    return $code
}

case ${1:-} in
    folders) folders ;;
    archive) archive "$2" ;;
    run) shift; run "$@" ;;
    clean) discard "$cache"/slurm-{trixie,sid,noble,resolute}{,.new} "$cache"/{base,slurm-source}* ;;
    *) sed -n '3,13p' "$0"; exit 2 ;;
esac
