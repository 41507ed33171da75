# shellcheck shell=sh disable=SC2154  # boot.sh has set them
# For each boot.sh, which reads this with `.` after it has started the emulator: waits for its end, and ends as its program did.
emulator=$!
ended=0
wait $emulator || ended=$?
wait $emulator || : # a signal has ended the first

[ ! -e "$out/stdout" ] || cat "$out/stdout"
[ ! -e "$out/stderr" ] || cat "$out/stderr" >&2
if [ -s "$out/status" ]; then
    exit "$(cat "$out/status")"
fi
echo "boot.sh: the guest did not come to the end of the program (qemu: $ended)" >&2
cat "$run/qemu" >&2
[ ! -e "$out/console" ] || tail -n 5 "$out/console" >&2
if [ "$ended" -eq 124 ] || [ "$ended" -eq 137 ]; then exit 124; fi
exit 125
