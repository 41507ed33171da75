#!/bin/sh
# Gets the launchers that tests/exec.rs and tests/map.rs start, from Debian's archive: Open MPI, MPICH, and PyTorch's torchrun.
# Whatever cannot be had is said, and its tests say so too: it ends with 0.
set -u

missing=
for package in openmpi-bin mpich python3-torch; do
    case $(dpkg-query -W -f '${Status}' $package 2> /dev/null) in
        'install ok installed') ;;
        *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
    echo "launchers: missing are$missing, and this is not root on Debian"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# one by one: what one lacks, the others need not
for package in $missing; do
    echo "launchers: apt-get install $package"
    timeout 300 apt-get -qq install -y --no-install-recommends "$package" > /dev/null ||
        echo "launchers: $package cannot be installed"
done
exit 0
