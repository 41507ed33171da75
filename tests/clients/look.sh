#!/bin/sh
# Runs a step, or a program without Slurm, and prints what `verify --json` says of it as soon as WORD stands there; then ends it.
#
#   look.sh WORD COMMAND…
#
# By environment:
#   VERIFY   more arguments of verify
#   FIRST    how verify is started, as `setpriv --reuid=1000`
set -u
word=$1
shift
"$@" > /tmp/looked 2>&1 &
step=$!
tries=0
while :; do
    begun=$(cut -d' ' -f1 /proc/uptime)
    # shellcheck disable=SC2086  # words
    report=$(${FIRST:-} /guest/nic-placement verify --json ${VERIFY:-})
    status=$?
    took=$(awk -v begun="$begun" '{ printf "%.1f", $1 - begun }' /proc/uptime)
    case $report in *"$word"*) break ;; esac
    tries=$((tries + 1))
    [ $tries -lt 60 ] || break
    sleep 0.5
done
echo "$report"
echo "status=$status took=$took"
# shellcheck disable=SC2086  # words
${FIRST:-} /guest/nic-placement verify ${VERIFY:-}
cat /tmp/looked >&2
kill $step 2> /dev/null
wait $step
exit 0
