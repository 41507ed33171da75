#!/bin/sh
# Installs from Debian's archive what `make test-arm` needs beside what it unpacks (fetch.sh).  It starts nothing.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends gcc make binutils gcc-aarch64-linux-gnu libc6-dev-arm64-cross mmdebstrap \
    python3-venv > /dev/null
