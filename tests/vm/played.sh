#!/bin/sh
# Plays boot.sh for watched.rs.
#
# By environment:
#   VM_OUT   as for boot.sh
#   PLAYS    what becomes of the guest, a word for each start: it is `silent`, `waits` until it is ended, `works` for 4 s,
#            `ends` after 3 s, `dies` before its program ends, or its program `fails`
set -eu
name=${VM_OUT##*/}
mkdir -p "$VM_OUT"
echo start >> "$VM_OUT.starts"
# shellcheck disable=SC2086  # a list of words
set -- $PLAYS
shift $(($(grep -c . "$VM_OUT.starts") - 1))
echo "$name: the last line" | tee "$VM_OUT/console" >&2
trap 'exit 125' TERM
echo 'a command, 120 s at most' > "$VM_OUT/doing"
says() {
    for _ in $(seq "$1"); do
        echo alive >> "$VM_OUT/console"
        sleep 0.2
    done
}
case $1 in
    silent) while :; do sleep 0.2; done ;;
    waits) says 300 ;;
    works) says 20 ;;
    ends) says 15 ;;
    dies) exit 125 ;;
    fails) exit 3 ;;
esac
