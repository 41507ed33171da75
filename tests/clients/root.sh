#!/bin/sh
# Makes the part of a guest's root file system that has Slurm and the programs whose traffic is counted.
#
#   root.sh FOLDER OBJECT…
#
#   OBJECT   as for tests/vm_slurm/root.sh, which does most of it
#
# Prints lines `share TAG FOLDER`: what of this machine the guest is to see besides (others.sh).
#
# By environment:
#   CLIENTS   as for tests/clients.rs: what only some groups need is made for these alone
#
# Status 77: this machine lacks a program, with the reason in one line on stderr.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
# asked GROUP: is that group of cases run?
asked() {
    case ,${CLIENTS:-}, in *,all,* | *,"$1",*) ;; *) return 1 ;; esac
}
cache=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nic-placement-vm}
mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9
sh "$here/../vm/fetch.sh" "$cache"
sh "$here/module.sh" "$cache"
! asked versions || sh "$here/releases.sh" "$cache"
! asked engines || sh "$here/engines.sh" "$cache"
exec 9>&-
lib=usr/lib/x86_64-linux-gnu
from=${SLURM_ROOT:-}

for file in usr/bin/ucx_perftest usr/bin/ib_write_bw usr/bin/fi_pingpong $lib/openmpi $lib/libmpich.so.12; do
    [ -e "$from/$file" ] || { echo "no \`$from/$file\`: \`tests/clients/install.sh\` installs it" >&2 && exit 77; }
done
mkdir -p "$folder/objects"
for kind in openmpi mpich; do
    command -v mpicc.$kind > /dev/null || { echo "no \`mpicc.$kind\`: \`tests/clients/install.sh\` installs it" >&2 && exit 77; }
    mpicc.$kind -O1 -Wall -Wextra -o "$folder/objects/pingpong.$kind" "$here/pingpong.c"
done
[ -e /usr/include/ucp/api/ucp.h ] || { echo 'no headers of UCX: `tests/slurm/install.sh` installs libucx-dev' >&2 && exit 77; }
for program in by_address by_worker; do
    gcc -std=gnu11 -Wall -Wextra -O1 -o "$folder/objects/$program" "$here/$program.c" -lucp -lucs
done

gcc -std=gnu11 -Wall -Wextra -O1 -pthread -o "$folder/objects/holder" "$here/holder.c" -libverbs

# Of Open MPI's components those that a rank needs (from release 5 on they are in its library); of verbs' providers rxe
# alone, the others would warn; nothing of UCX for GPUs, which would bring their runtimes.
components=$lib/openmpi/lib/openmpi3
wanted="usr/bin/ucx_info usr/bin/ucx_perftest usr/bin/fi_pingpong
    $lib/ucx/*.so.0 $lib/libibverbs/librxe-rdmav*.so etc/libibverbs.d/rxe.driver
    $lib/slurm-wlm/mpi_pmix.so $lib/pmix2/lib/libpmix.so $lib/pmix2/lib/libpmix.so.2 $lib/pmix2/lib/pmix/*.so
    $lib/libmpi.so.40 $lib/libmpich.so.12
    $components/mca_[abcp]*.so $components/mca_e[rs]*.so $components/mca_mtl_ofi.so $components/mca_osc_[rsu]*.so
    usr/bin/salloc usr/bin/orterun usr/bin/orted usr/share/openmpi/help-*.txt $components/mca_[gio]*.so
    $components/mca_r*.so $components/mca_sh*.so $components/mca_s[ct]*.so $components/mca_mp*.so
    etc/openmpi/openmpi-mca-params.conf usr/bin/setpriv usr/bin/bash usr/bin/ib_write_bw usr/bin/lstopo-no-graphics"
# shellcheck disable=SC2086  # a list of patterns
ROOT_ALSO=$(cd "$from/" && ls -d $wanted 2> /dev/null | grep -v rocm | tr '\n' ' ')
export ROOT_ALSO
"$here/../vm_slurm/root.sh" "$folder" "$@" "$folder/objects/pingpong.openmpi" "$folder/objects/pingpong.mpich" \
    "$folder/objects/by_address" "$folder/objects/by_worker" "$folder/objects/holder" "$here/pair.sh" "$here/look.sh" "$here/meet.sh" "$here/fabric.sh" \
    "$here/plugstack.sh" "$here/quick.sh" "$here/count.sh" "$here/rails.sh" "$here/rank.sh" "$here/lost.sh" \
    "$here/others.sh" "$here/engine.py" "$here/torch.sh" "$here/step.py" "$here/../../packaging/trial/trial.sbatch"
mkdir -p "$folder/guest/played"
gcc -std=gnu11 -O1 -shared -fPIC -DNODE -o "$folder/guest/played/libcuda.so.1" "$here/../trial/libcuda.c"
rm -rf "$folder/objects"
for module in configfs e1000e rdma_rxe; do strip --strip-debug -o "$folder/guest/$module.ko" "$cache/rxe/$module.ko"; done
# the guest unpacks all this; MPICH's library alone is 40 MB as it comes
find "$folder/usr" -type f -size +100k -exec strip --strip-unneeded {} + 2> /dev/null || true
printf '%s\n' '127.0.0.1 localhost' '192.168.7.1 n0' '192.168.7.2 n1' > "$folder/etc/hosts"
# Debian's python3-torch and python3-numpy find their BLAS by way of this
if asked torch && [ -x /usr/bin/torchrun ] || asked engines && [ -d /usr/lib/python3/dist-packages/numpy ]; then
    cp -a /etc/alternatives "$folder/etc/"
    echo 'share host /usr'
fi
if asked versions && [ -d "$cache/ucx" ]; then echo "share releases $cache/ucx"; fi
if asked engines && [ -d "$cache/engines" ]; then echo "share engines $cache/engines"; fi
