#!/bin/bash
# CPython's own tests. Where some fail here without the library (as root, without a network), the same ones
# and no others may fail with it.
# usage: python.sh LIBRARY [few]
source "$(dirname "$0")/common.sh"
python=/usr/bin/python3
need "$python"
if ! "$python" -c 'import test.test_threading' 2>/dev/null; then
    echo "skipped: CPython's tests are not installed (libpython3.11-testsuite)"
    exit "$skip_status"
fi
export LC_ALL=C.UTF-8

# A test that hangs is cut. It has 90 s of a processor for itself; more, the more tasks share one.
patience=$(awk -v processors="$(nproc)" '{ printf "%d", 90 * (1 + $1 / processors) }' /proc/loadavg)

# run_tests PLACE TEST...: in a place of its own; leaves the names of failed tests in PLACE.failed.
run_tests() {
    local place=$1
    shift
    run_in "$place" "$@"
    sed -n -E 's/^(FAIL|ERROR): //p' "$work/$place.output" "$work/$place.errors" | sort -u >"$work/$place.failed"
}

# suite ALLOCATOR TEST...: with Python's own allocator in front, or without ("malloc").
suite() {
    local allocator=$1
    shift
    local command=(env PYTHONMALLOC="$allocator" "$python" -m test -j 2 --timeout "$patience" "$@")
    run_tests hakmem env LD_PRELOAD="$library" "${command[@]}"
    grep -q '^Tests result: ' "$work/hakmem.output" || { tail -n 40 "$work/hakmem.errors" >&2; fail "no result"; }
    if [ "$(cat "$work/hakmem.status")" -ne 0 ]; then
        run_tests glibc "${command[@]}"
        if ! cmp -s "$work/glibc.status" "$work/hakmem.status" || ! cmp -s "$work/glibc.failed" "$work/hakmem.failed"; then
            tail -n 80 "$work/hakmem.output" >&2
            fail "$allocator: tests fail under the library that do not without it: $*"
        fi
    fi
    echo "PYTHONMALLOC=$allocator $*: $(sed -n 's/^Tests result: //p' "$work/hakmem.output")"
}

if [ "${2:-}" = few ]; then
    suite malloc test_thread test_threading_local test_json test_dict test_list
else
    suite default test_threading test_thread test_threading_local test_fork1 test_multiprocessing_main_handling
    suite default -m '*Pool*' -m '*Queue*' -m '*WithProcessesTestProcess*' test_multiprocessing_fork
    suite malloc test_gc test_json test_pickle test_dict test_list test_set test_unicode test_bytes test_weakref \
        test_array test_thread test_threading_local
fi
served python3 "$python" -c 'print(len([str(i) for i in range(1000)]))'
