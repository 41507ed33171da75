#!/bin/sh
# Installs from Debian's archive the missing packages that the private Slurm, the build and the tests need.  Prints what it does.
# It starts nothing: while it runs, policy-rc.d keeps the packages' own services from starting.
set -eu

needed='slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libslurm-dev gcc libc6-dev make bzip2 iproute2'
# tests/ucx.rs asks the real UCX
needed="$needed ucx-utils libucx-dev"
# tests/fabric.rs plays fabrics to real programs
needed="$needed ibsim-utils infiniband-diags lldpd"
# what hooks take, and what they lose, is counted by it
needed="$needed valgrind"
# steps in an OCI bundle and with a display
needed="$needed runc xauth"
# several tests compare with hwloc; the package with graphics has the same tool and must not be replaced
command -v lstopo-no-graphics > /dev/null || needed="$needed hwloc-nox"
missing=
for package in $needed; do
    case $(dpkg-query -W -f '${Status}' "$package" 2> /dev/null) in
        'install ok installed') ;;
        *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then
    echo 'install: nothing is missing'
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "install: missing are$missing; run this as root, or \`apt-get install$missing\`" >&2
    exit 1
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
echo 'install: apt-get update'
apt-get -qq update
echo "install: apt-get install$missing"
# shellcheck disable=SC2086
apt-get -qq install -y --no-install-recommends $missing
