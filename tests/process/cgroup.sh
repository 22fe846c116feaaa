#!/bin/sh
# A container of 64 MiB: 40 MiB stay live under churn, and the process is not killed.
# usage: cgroup.sh PROBE
set -eu
probe=$1
limit=$((64 * 1024 * 1024))
live_mib=40
steps=600000
skip=77
group=

clean_up() {
    if [ -n "$group" ]; then rmdir "$group" 2>/dev/null || true; fi
}
trap clean_up EXIT

# make_group PARENT LIMIT_FILE: leaves the new group's path in $group, or nothing.
make_group() {
    candidate=$1/hakmem-test-$$
    mkdir "$candidate" 2>/dev/null || return 0
    if [ -w "$candidate/$2" ] && echo "$limit" 2>/dev/null >"$candidate/$2"; then
        group=$candidate
    else
        rmdir "$candidate"
    fi
}

v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ -n "$v1" ]; then make_group "$v1" memory.limit_in_bytes; fi
if [ -z "$group" ] && [ -n "$v2" ]; then make_group "$v2" memory.max; fi
if [ -z "$group" ]; then
    echo "skipped: no memory cgroup can be made here"
    exit "$skip"
fi
# Swap would hide what the test looks for.
for file in memory.memsw.limit_in_bytes memory.swap.max; do
    if [ -w "$group/$file" ]; then echo "$limit" 2>/dev/null >"$group/$file" || true; fi
done

for profile in speed balanced lean; do
    status=0
    found=$(
        echo 0 >"$group/cgroup.procs"
        HAKMEM_PROFILE=$profile exec "$probe" live "$live_mib" "$steps"
    ) || status=$?
    if [ "$status" -ne 0 ] || [ "$found" != worked ]; then
        echo "cgroup.sh: $live_mib MiB live in 64 MiB, profile $profile: '$found' (exit status $status)" >&2
        exit 1
    fi
    echo "$profile: worked"
done
