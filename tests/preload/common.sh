# Shared by the preload tests; source it, with the library as the script's first argument.
#
# same NAME COMMAND...   runs a command on the C library's malloc, then on the library: exit status, standard output
#                        and standard error must be equal. Standard input comes from the file $work/input.
# served NAME COMMAND... runs a command on the library: fails unless that is where it gets malloc from.
# need PROGRAM...        skips the test when one is missing.
#
# Each command runs in an empty directory of its own, so that what it leaves behind can be compared too (same_files).
set -euo pipefail

skip_status=77
library=${1:?usage: $0 LIBRARY [ARGUMENT...]}
[ -f "$library" ] || { echo "$0: no such library: $library" >&2; exit 2; }
library=$(realpath "$library")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/input"
export LC_ALL=C TZ=UTC HOME=$work TMPDIR=$work

need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        echo "skipped: $program is not installed"
        exit "$skip_status"
    done
}

fail() {
    echo "$0: $*" >&2
    exit 1
}

# run_in PLACE COMMAND...: leaves output, errors and the exit status in files.
run_in() {
    local place=$1
    shift
    rm -rf "$work/$place" && mkdir "$work/$place"
    local status=0
    (cd "$work/$place" && exec "$@") <"$work/input" >"$work/$place.output" 2>"$work/$place.errors" || status=$?
    echo "$status" >"$work/$place.status"
}

same() {
    local name=$1 part
    shift
    run_in glibc "$@"
    run_in hakmem env LD_PRELOAD="$library" "$@"
    for part in status output errors; do
        cmp -s "$work/glibc.$part" "$work/hakmem.$part" && continue
        echo "$0: $name: its $part differs under the library:" >&2
        diff "$work/glibc.$part" "$work/hakmem.$part" | head -n 40 >&2 || true
        exit 1
    done
    echo "$name: same (exit status $(cat "$work/glibc.status"))"
}

# After `same`: the directories that both runs left are equal.
same_files() {
    diff -r "$work/glibc" "$work/hakmem" >&2 || fail "$1: the files it wrote differ"
    [ -n "$(ls -A "$work/glibc")" ] || fail "$1: it wrote no files"
    echo "$1: same files"
}

# The dynamic linker says which library it found malloc in; what a program prints at exit would prove less, since
# many close their standard error before.
served() {
    local name=$1
    shift
    rm -f "$work"/bindings.*
    run_in served env LD_PRELOAD="$library" LD_DEBUG=bindings LD_DEBUG_OUTPUT="$work/bindings" "$@"
    grep -q -E "to [^ ]*$(basename "$library") .*symbol .(malloc|calloc|realloc)'" "$work"/bindings.* ||
        fail "$name: the library did not serve it"
    echo "$name: served"
}

# Fails unless a running process has the library mapped.
mapped() {
    grep -qF "$(basename "$library")" "/proc/$1/maps" || fail "process $1 runs without the library"
}
