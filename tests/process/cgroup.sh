#!/bin/sh
# A container of 64 MiB: 40 MiB stay live under churn, and the process is not killed.
# usage: cgroup.sh PROBE
set -eu
probe=$1
limit=$((64 * 1024 * 1024))
live_mib=40
steps=600000
skip=77
. "$(dirname "$0")/memory_group.sh"

make_group test "$limit"
if [ -z "$group" ]; then
    echo "skipped: no memory cgroup can be made here"
    exit "$skip"
fi

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
