#!/bin/sh
# A small program under a limit of data (ulimit -d) from 512 KiB up, where it suffices on the C library's malloc, too.
# usage: ulimit_data.sh LIBRARY PROGRAM
set -eu
library=$1
program=$2
some=0
for limit_kib in 512 640 768 1024 2048; do
    # shellcheck disable=SC3045
    (ulimit -d "$limit_kib" && exec "$program") >/dev/null 2>&1 || continue
    some=1
    found=$( (ulimit -d "$limit_kib" && LD_PRELOAD=$library exec "$program") 2>&1) || {
        echo "ulimit -d $limit_kib: $found" >&2
        exit 1
    }
    [ "$found" = "done" ] || { echo "ulimit -d $limit_kib: it said '$found'" >&2; exit 1; }
    echo "$limit_kib KiB: done"
done
[ "$some" -eq 1 ] || { echo "skipped: the program needs more by itself"; exit 77; }
