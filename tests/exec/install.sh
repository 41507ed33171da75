#!/bin/sh
# Gets the launchers that tests/exec.rs starts, from Debian's archive: Open MPI, MPICH, and PyTorch's torchrun.
# And promtool, which holds the alert rules to the metrics.
# Whatever cannot be had is said, and its tests say so too: it ends with 0.
set -u

missing=
for package in openmpi-bin mpich python3-torch; do
    case $(dpkg-query -W -f '${Status}' $package 2> /dev/null) in
        'install ok installed') ;;
        *) missing="$missing $package" ;;
    esac
done
# the program alone, 48 MB: its package brings a server that would start with the machine
if ! command -v promtool > /dev/null; then missing="$missing promtool"; fi
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
    echo "launchers: missing are$missing, and this is not root on Debian"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# one by one: what one lacks, the others need not
for package in $missing; do
    if [ "$package" = promtool ]; then
        echo 'launchers: promtool, from the package prometheus'
        (cd "$(mktemp -d)" && trap 'rm -rf "$PWD"' EXIT && timeout 300 apt-get -qq download prometheus 2> /dev/null &&
            dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x -C /usr/local --strip-components=2 ./usr/bin/promtool) ||
            echo 'launchers: promtool cannot be had'
        continue
    fi
    echo "launchers: apt-get install $package"
    timeout 300 apt-get -qq install -y --no-install-recommends "$package" > /dev/null ||
        echo "launchers: $package cannot be installed"
done
exit 0
