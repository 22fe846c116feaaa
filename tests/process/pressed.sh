#!/bin/sh
# A process stays at 95 to 100 % of its own limit, and of a control group's, without being killed; and its count of pages
# agrees with the kernel's. Without a control group the second half is left out.
# usage: pressed.sh PROGRAM SECONDS
set -eu
program=$1
seconds=$2
limit=$((256 * 1024 * 1024))
. "$(dirname "$0")/memory_group.sh"

HAKMEM_MEMORY_LIMIT=$limit "$program" "$seconds" /proc/self/smaps_rollup Anonymous:

make_group pressed "$limit"
if [ -z "$group" ]; then
    echo "no memory cgroup can be made here: only the own limit was tried"
    exit 0
fi
(
    echo 0 >"$group/cgroup.procs"
    HAKMEM_MEMORY_LIMIT=auto:97% exec "$program" "$seconds" "$group/memory.stat" "$row"
)
