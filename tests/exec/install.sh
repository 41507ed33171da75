#!/bin/sh
# Gets the launchers that tests/exec.rs starts: Open MPI and MPICH from Debian's archive, PyTorch's CPU build from its own
# index into ~/.cache/nic-placement/torch.  Whatever cannot be had is said, and its tests say so too: it ends with 0.
set -u

if ! command -v mpirun.openmpi > /dev/null || ! command -v mpirun.mpich > /dev/null; then
    if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null; then
        echo 'launchers: apt-get install openmpi-bin mpich'
        export DEBIAN_FRONTEND=noninteractive
        timeout 100 apt-get -qq install -y --no-install-recommends openmpi-bin mpich > /dev/null ||
            echo 'launchers: openmpi-bin and mpich cannot be installed'
    else
        echo 'launchers: openmpi-bin and mpich are missing, and this is not root on Debian'
    fi
fi

torch=${NIC_PLACEMENT_TORCH:-${XDG_CACHE_HOME:-$HOME/.cache}/nic-placement/torch}
if [ ! -x "$torch/bin/torchrun" ]; then
    # the default index has builds with CUDA, which are 20 times as large
    echo "launchers: PyTorch's CPU build into $torch"
    { python3 -m venv "$torch" &&
        timeout 100 "$torch/bin/pip" install -q torch --index-url https://download.pytorch.org/whl/cpu; } > /dev/null 2>&1 ||
        echo "launchers: PyTorch cannot be had here; by hand: $torch/bin/pip install torch"
fi
exit 0
