#!/bin/bash
# NCCL up to 2.29 looks for .nccl.conf at the home that passwd has, whatever HOME says; from 2.30 on at HOME, and nowhere without it.
#
# nvidia-nccl-cu12 of PyPI, 2026-11-27: ncclGetUniqueId, with `NCCL_DEBUG=INFO` in $HOME/.nccl.conf of another folder than passwd's
#
#   2.29.7   prints nothing: that file is not read
#   2.30.7   prints lines `NCCL INFO …`
#
# So a user whose job sets HOME, and a task of `srun --export=NONE`, which has none (Slurm 22.05.8), gets other values by the release
# alone.  Ends with 1 if that changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home"
echo NCCL_DEBUG=INFO > "$work/home/.nccl.conf"
# another home than passwd's is what this is about
[ "$(getent passwd "$(id -u)" | cut -d: -f6)" != "$work/home" ]
unset NCCL_DEBUG NCCL_CONF_FILE

# lines RELEASE: NCCL's lines, by the file at HOME
lines() {
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work" "nvidia-nccl-cu12==$1"
    python3 -m zipfile -e "$work"/nvidia_nccl_cu12-"$1"-*.whl "$work/$1"
    HOME=$work/home python3 - "$(find "$work/$1" -name libnccl.so.2)" << 'END' 2>&1 | grep -c 'NCCL INFO' || true
import ctypes, sys
ctypes.CDLL(sys.argv[1]).ncclGetUniqueId(ctypes.create_string_buffer(128))
END
}

old=$(lines 2.29.7) new=$(lines 2.30.7)
printf '%s lines by 2.29.7, %s by 2.30.7\n' "$old" "$new"
[ "$old" = 0 ] && [ "$new" -gt 0 ]
