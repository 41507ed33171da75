#!/bin/sh
# Installs from Debian's archive the programs whose traffic tests/clients.rs counts, besides what tests/slurm/install.sh has.
set -eu

missing=
for package in ucx-utils perftest hwloc-nox libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev; do
    case $(dpkg-query -W -f '${Status}' $package 2> /dev/null) in
        'install ok installed') ;;
        *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ]; then
    echo "clients: missing are$missing; run this as root, or \`apt-get install$missing\`" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
echo "clients: apt-get install$missing"
# shellcheck disable=SC2086  # a list of names
apt-get -qq install -y --no-install-recommends $missing > /dev/null
