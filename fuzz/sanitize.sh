#!/bin/bash
#
# The libraries' tests and the fake Slurm's steps under AddressSanitizer and LeakSanitizer: fuzz/sanitize.sh.
# Needs a nightly toolchain (`rustup toolchain install nightly`) and cc with libasan.  The standard library is the toolchain's
# own and is not instrumented; its calls of malloc and free are seen all the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}/asan
build=(--locked --target "$host" --target-dir "$folder")
export RUST_BACKTRACE=0
# tests keep what they make for as long as they run: what the plugin itself leaves is seen below
ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS=-Zsanitizer=address cargo +nightly test "${build[@]}" \
    -p nic-placement-core -p nic-placement-process -p nic-placement-sys --lib
RUSTFLAGS=-Zsanitizer=address cargo +nightly build "${build[@]}" -p nic-placement

# the program that loads an instrumented library brings the sanitizer along
printf '#!/bin/sh\nexec cc -fsanitize=address "$@"\n' > "$folder/cc"
chmod +x "$folder/cc"
CC=$(realpath "$folder/cc") NIC_PLACEMENT_SO=$(realpath "$folder/$host/debug/libnic_placement.so") \
    cargo test --locked -p nic-placement --test host -- --skip valgrind --skip instructions --skip memory_nor_open_files
