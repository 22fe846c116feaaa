#!/bin/sh
# A process stays at 95 to 100 % of its own limit, and of a control group's, without being killed; and its count of pages
# agrees with the kernel's. Without a control group the second half is left out.
# usage: pressed.sh PROGRAM SECONDS
set -eu
program=$1
seconds=$2
limit=$((256 * 1024 * 1024))
group=

clean_up() {
    if [ -n "$group" ]; then rmdir "$group" 2>/dev/null || true; fi
}
trap clean_up EXIT

HAKMEM_MEMORY_LIMIT=$limit "$program" "$seconds" /proc/self/smaps_rollup Anonymous:

# make_group PARENT LIMIT_FILE: leaves the new group's path in $group, or nothing.
make_group() {
    candidate=$1/hakmem-pressed-$$
    mkdir "$candidate" 2>/dev/null || return 0
    if [ -w "$candidate/$2" ] && echo "$limit" 2>/dev/null >"$candidate/$2"; then
        group=$candidate
    else
        rmdir "$candidate"
    fi
}

row=total_rss
v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ -n "$v1" ]; then make_group "$v1" memory.limit_in_bytes; fi
if [ -z "$group" ] && [ -n "$v2" ]; then
    row=anon
    make_group "$v2" memory.max
fi
if [ -z "$group" ]; then
    echo "no memory cgroup can be made here: only the own limit was tried"
    exit 0
fi
for file in memory.memsw.limit_in_bytes memory.swap.max; do
    if [ -w "$group/$file" ]; then echo "$limit" 2>/dev/null >"$group/$file" || true; fi
done
(
    echo 0 >"$group/cgroup.procs"
    HAKMEM_MEMORY_LIMIT=auto:97% exec "$program" "$seconds" "$group/memory.stat" "$row"
)
