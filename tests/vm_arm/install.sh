#!/bin/sh
# Installs from Debian's archive what `make test-arm` needs beside what it unpacks (fetch.sh): flex, bison and bc are for a kernel with
# pages of 64 KiB.  It starts nothing.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends gcc make binutils gcc-aarch64-linux-gnu libc6-dev-arm64-cross mmdebstrap \
    python3-venv flex bison bc > /dev/null
