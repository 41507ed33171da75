#!/bin/bash
#
# slurmstepd under valgrind, on a private Slurm: steps without the plugin and with it.  Fails where valgrind names an error or
# a leak with a frame of the plugin in its stack, or a descriptor that the plugin opened and left.
#
#   valgrind.sh [STEPS]     steps of each kind, 3 by default
#
# The control is a library that loses memory on purpose (NIC_PLACEMENT_PANIC_SO): where valgrind does not name that one, it would
# name no leak of ours either, and the script fails.
#
# Slurm unloads its plugins before a process ends, and valgrind would then call lost what the plugin's statics hold, once for
# each process.  So dlclose(3) does nothing here: what is still reported is lost to the plugin too.  (With
# the real dlclose(3) those statics are named, so what the plugin loses would be.)  One descriptor is kept on
# purpose, that of /dev.
#
# slurmd runs the program that `slurmd -d` names in place of slurmstepd: a script that becomes valgrind, which runs the real
# one.  The hooks of the tasks run in its children, which valgrind follows until they become the program.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
plugin=$(readlink -f "${NIC_PLACEMENT_SO:-${CARGO_TARGET_DIR:-$repository/target}/release/libnic_placement.so}")
leaking=${NIC_PLACEMENT_PANIC_SO:-$repository/target/panic/debug/libnic_placement.so}
steps=${1:-3}
command -v valgrind > /dev/null || { echo 'valgrind.sh: skipped: there is no `valgrind`'; exit 0; }
real=$(command -v slurmstepd || echo /usr/sbin/slurmstepd)
export NICP_DIR=${NICP_DIR:-/var/tmp/nic-placement-valgrind} NICP_NODES=1 NICP_PORT=${NICP_PORT:-23317}
export NICP_BIN=${NICP_BIN:-$(dirname "$plugin")/nic-placement} NICP_STEPD=$NICP_DIR/stepd
cluster=$here/cluster.sh
trap '"$cluster" down; [ ! -e "$NICP_DIR/.nic-placement" ] || rm -rf "$NICP_DIR"' EXIT
"$cluster" down
mkdir -p "$NICP_DIR"
touch "$NICP_DIR/.nic-placement"
cat > "$NICP_STEPD" <<SCRIPT
#!/bin/bash
exec valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect --track-fds=yes --num-callers=40 --vgdb=no \\
    --keep-debuginfo=yes --log-file=$NICP_DIR/valgrind/%p $real "\$@"
SCRIPT
chmod +x "$NICP_STEPD"
mkdir -p "$NICP_DIR/valgrind"
echo 'int dlclose(void *library) { (void)library; return 0; }' | cc -x c -shared -fPIC -o "$NICP_DIR/loaded.so" -
export NICP_PRELOAD=$NICP_DIR/loaded.so
"$cluster" up
eval "$("$cluster" env)"
cd "$NICP_DIR"

# run KIND LINE FLAG: that many steps; what valgrind says is kept in KIND
run() {
    printf '%s\n' "$2" > "$NICP_DIR/etc/plugstack.conf"
    rm -rf "$NICP_DIR/valgrind"
    mkdir -p "$NICP_DIR/valgrind"
    for ((i = 0; i < steps; i++)); do
        # shellcheck disable=SC2086
        HOME=$NICP_DIR timeout 300 srun -w n0 -n2 --gpus-per-task=1 $3 "$NICP_DIR/bin/report" NCCL_IB_HCA
    done > "$1.out"
    # slurmstepd lives a little longer than its step
    for _ in {1..200}; do pgrep -f "$NICP_DIR/valgrind/" > /dev/null || break; sleep 0.1; done
    cat "$NICP_DIR"/valgrind/* > "$1.said"
    echo "$1: $(grep -c '^rank=' "$1.out") tasks, $(grep -c NCCL_IB_HCA== "$1.out" || true) placed," \
        "$(find "$NICP_DIR/valgrind" -type f | wc -l) processes under valgrind," \
        "$(grep -c 'definitely lost in' "$1.said" || true) leaks and $(grep -c 'Invalid \|uninitialised' "$1.said" || true) errors in all"
}
run without '' ''
run with "optional $plugin" --nic-placement=verbose
run observed "optional $plugin default=observe" ''
if [ -e "$leaking" ]; then run leaking "optional $(readlink -f "$leaking") leak=init_post_opt" --nic-placement; fi
# Leaks and errors whose stack has a frame of the plugin, and descriptors that it opened: each block of valgrind's text
of_plugin() {
    sed 's/==[0-9]*== \{0,1\}//' "$1.said" | awk -v RS= -v ORS='\n\n' -v kept="$2" '
        /libnic_placement|nic_placement::/ && !(kept && /^Open file descriptor [0-9]+: \/dev\n/)'
}
code=0
for kind in with observed; do
    of_plugin $kind kept > named
    if [ -s named ]; then
        echo "valgrind names the plugin, in steps of the kind \`$kind\`:"
        head -n 60 named
        code=1
    fi
    of_plugin $kind '' > named
    echo "$kind: $(grep -c '^Open file descriptor' named || true) descriptors of the plugin's open at an end, those of /dev"
done
if [ ! -e "$leaking" ]; then
    echo 'control: skipped: no test build: `make test-libraries` makes it'
elif of_plugin leaking kept | grep -q 'bytes in .* definitely lost'; then
    echo 'control: valgrind names the leak that is made on purpose'
else
    echo 'control: valgrind does not name the leak that is made on purpose: it would name none'
    code=1
fi
if [ "${KEEP:-}" ]; then mkdir -p "$KEEP"; cp ./*.said ./*.out "$KEEP"; fi
exit $code
