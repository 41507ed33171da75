#!/bin/bash
# libfabric takes FI_PROVIDER= (set, and empty) for a list without a provider: nothing is left, also for a program that asks for any.
#
# libfabric 2.5 (in PyPI's mpich 5.0.2), 2026-11-27: fi_getinfo(3) without hints
#
#   FI_PROVIDER unset    0, shm sm2 sockets tcp udp
#   FI_PROVIDER=         -61 (FI_ENODATA)
#   FI_PROVIDER=TCP      0, tcp
#   FI_PROVIDER=' tcp'   -61
#
# Most programs take an empty variable for an unset one, so `FI_PROVIDER= srun …` looks as if it left the choice to libfabric.
# Ends with 1 if that changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check mpich==5.0.2
library=$(find "$work/venv" -name libfabric.so.1 | head -n 1)

providers() {
    python3 - "$library" << 'END'
import ctypes, re, sys
fabric, info, names = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), set()
fabric.fi_tostr.restype = ctypes.c_char_p
ended = fabric.fi_getinfo(fabric.fi_version(), None, None, ctypes.c_uint64(0), None, ctypes.byref(info))
at = info.value
while at:
    names.update(re.findall(r"prov_name: (\w+)", fabric.fi_tostr(ctypes.c_void_p(at), 0).decode()))
    at = ctypes.c_void_p.from_address(at).value
print(ended, *sorted(names))
END
}

unset FI_PROVIDER
unset_=$(providers) empty=$(FI_PROVIDER='' providers) upper=$(FI_PROVIDER=TCP providers) blank=$(FI_PROVIDER=' tcp' providers)
printf '%-20s %s\n' unset "$unset_" FI_PROVIDER= "$empty" FI_PROVIDER=TCP "$upper" "FI_PROVIDER=' tcp'" "$blank"
[[ $unset_ == '0 '*tcp* ]] && [ "$empty" = -61 ] && [ "$upper" = '0 tcp' ] && [ "$blank" = -61 ]
