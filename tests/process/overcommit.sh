#!/bin/sh
# Strict accounting of memory (vm.overcommit_memory=2): reserving address space counts there. The setting
# belongs to the whole machine, so it is changed for moments only and restored whatever happens.
# usage: overcommit.sh LIBRARY PROBE
set -eu
library=$1
probe=$2
knob=/proc/sys/vm/overcommit_memory
skip=77

if [ "$(id -u)" -ne 0 ] || ! [ -w "$knob" ]; then
    echo "skipped: $knob is not writable"
    exit "$skip"
fi
before=$(cat "$knob")
headroom_kib=$(awk '/^CommitLimit/ { limit = $2 } /^Committed_AS/ { used = $2 } END { print limit - used }' /proc/meminfo)
if [ "$headroom_kib" -lt $((1024 * 1024)) ]; then
    echo "skipped: less than 1 GiB could be committed under strict accounting"
    exit "$skip"
fi
trap 'echo "$before" >"$knob"' EXIT
trap 'exit 1' HUP INT TERM
if ! echo 2 2>/dev/null >"$knob"; then
    trap - EXIT
    echo "skipped: $knob cannot be set here"
    exit "$skip"
fi
expected=worked
found=$(timeout 60 "$probe" work)
[ "$found" = "$expected" ] || { echo "overcommit.sh: the probe said '$found'" >&2; exit 1; }
found=$(timeout 60 "$probe" live 100 100000)
[ "$found" = "$expected" ] || { echo "overcommit.sh: 100 MiB live: '$found'" >&2; exit 1; }
found=$(LD_PRELOAD=$library timeout 60 bash -c 'for i in 1 2 3; do (echo $i | sort); done | tr "\n" " "')
[ "$found" = "1 2 3 " ] || { echo "overcommit.sh: bash said '$found'" >&2; exit 1; }
# Every private writable mapping counts, used or not: a few idle processes must not exhaust the machine.
LD_PRELOAD=$library sleep 5 &
sleeper=$!
sleep 0.5
idle_kib=$(awk '/^VmData/ { print $2 }' "/proc/$sleeper/status")
kill "$sleeper"
wait "$sleeper" || true
echo "an idle process commits at most $idle_kib KiB"
[ "$idle_kib" -lt $((256 * 1024)) ] || { echo "overcommit.sh: that is too much" >&2; exit 1; }
