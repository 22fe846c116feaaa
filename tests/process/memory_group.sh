# Sourced: makes a control group that limits memory, and removes it at the exit.

group=

remove_group() {
    if [ -n "$group" ]; then rmdir "$group" 2>/dev/null || true; fi
}
trap remove_group EXIT

# make_in PARENT LIMIT_FILE NAME BYTES: leaves the new group's path in $group, or nothing.
make_in() {
    candidate=$1/hakmem-$3-$$
    mkdir "$candidate" 2>/dev/null || return 0
    if [ -w "$candidate/$2" ] && echo "$4" 2>/dev/null >"$candidate/$2"; then
        group=$candidate
    else
        rmdir "$candidate"
    fi
}

# make_group NAME BYTES: leaves the group's path in $group, or nothing, and what memory.stat calls its pages in $row.
make_group() {
    row=total_rss
    v1=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
    v2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    if [ -n "$v1" ]; then make_in "$v1" memory.limit_in_bytes "$1" "$2"; fi
    if [ -z "$group" ] && [ -n "$v2" ]; then
        row=anon
        make_in "$v2" memory.max "$1" "$2"
    fi
    if [ -z "$group" ]; then return 0; fi
    # Swap would hide what a test looks for.
    for file in memory.memsw.limit_in_bytes memory.swap.max; do
        if [ -w "$group/$file" ]; then echo "$2" 2>/dev/null >"$group/$file" || true; fi
    done
}
