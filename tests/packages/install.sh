#!/bin/sh
# Installs from Debian's archive what `make test-packages` needs beside what tests/slurm/install.sh does, and makes the clean
# roots of Debian 12 and 13 with their Slurm.  It starts nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
"$here/../slurm/install.sh"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends debootstrap mmdebstrap rpm cpio faketime lintian qemu-user-static gcc-aarch64-linux-gnu \
    libc6-dev-arm64-cross python3-venv python3-yaml > /dev/null
NICP_RELEASES='bookworm trixie' "$here/../slurm/releases.sh" folders
