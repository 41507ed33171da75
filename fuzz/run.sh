#!/bin/bash
#
# Fuzzes one target, or all: fuzz/run.sh [TARGET…].  SECONDS_EACH says how long (600), RUNS how often at most (10000000).
# Needs a C++ compiler for libFuzzer, and no nightly toolchain.  What breaks a target lies in fuzz/found afterwards; the inputs
# that reach something new in fuzz/grown.  An input may take 1 s and 256 MiB; SANITIZER=address (nightly) needs more memory.
# The last line of a target is one for fuzz/RUNS.tsv.  The second is one of the clock: where other work takes the processor, give
# TIMEOUT=60, and look at what found/ then has of slow-unit-… alone.
#
# fuzz/run.sh slow [TARGET…] looks for the input that costs most, by basic blocks: BLOCKS says how many for each length
# (1000000000).  The worst of each length lies in fuzz/found/slow-TARGET-LENGTH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}
flags="-Cpasses=sancov-module"

if [ "${1:-}" = slow ]; then
    shift
    flags="$flags -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-trace-pc-guard --cfg fuzzing"
    RUSTFLAGS="$flags" cargo build --release --locked --features slow --bin slow --target "$host" --target-dir "$target/slow"
    exec "$target/slow/$host/release/slow" "$@"
fi

flags="$flags -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags="$flags -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
memory=256
cargo=(cargo)
if [ "${SANITIZER:-}" = address ]; then
    flags="$flags -Zsanitizer=address"
    memory=2048
    cargo=(cargo +nightly)
    target=$target/address
fi
RUSTFLAGS="$flags" "${cargo[@]}" build --release --locked --features libfuzzer --bin fuzz --target "$host" --target-dir "$target"
program=$(realpath "$target/$host/release/fuzz")

if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # names without spaces
    set -- $(sed -n 's/^    ("\([a-z_]*\)", .*/\1/p' src/targets/mod.rs)
fi

# Bytes of an input of a target, at most: what matters of its format fits, and longer ones cost as much as many short ones.
longest() {
    case $1 in
        words) echo 1200 ;; # a line may have 1024
        sysfs) echo 256 ;; # a change is a few bytes
        ranks) echo 512 ;;
        plugstack | conf) echo 1024 ;;
        environment | tables | lists) echo 2048 ;;
        request | nccl | matrix) echo 4096 ;;
        audit | hwloc) echo 8400 ;; # a small node as hwloc 2 writes it
        *) echo 16384 ;;
    esac
}

today=$(date -u +%F)
# of what is tested
commit=$(git log -1 --format=%h -- ../crates)$(git diff --quiet HEAD -- ../crates || echo -dirty)
for name; do
    mkdir -p "grown/$name" found corpus/"$name"
    dictionary=()
    if [ -e "dictionaries/$name.dict" ]; then dictionary=(-dict="dictionaries/$name.dict"); fi
    echo "== $name"
    NIC_PLACEMENT_FUZZ=$name "$program" "grown/$name" "corpus/$name" "${dictionary[@]}" \
        -max_len="${MAX_LEN:-$(longest "$name")}" -rss_limit_mb="$memory" -timeout="${TIMEOUT:-1}" -report_slow_units=1 \
        -max_total_time="${SECONDS_EACH:-600}" \
        -runs="${RUNS:-10000000}" -print_final_stats=1 -artifact_prefix="found/$name-" 2>&1 | tee "grown/$name.log"
    # only where it ended by itself
    awk -v OFS='\t' -v name="$name" -v today="$today" -v commit="$commit" '
        /^Done [0-9]+ runs in / { runs = $2; seconds = $5 }
        /^stat::peak_rss_mb:/ { peak = $2 }
        END { print name, today, commit, runs, seconds, peak }' "grown/$name.log"
done
