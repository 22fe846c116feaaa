#!/bin/sh
# Tools of valgrind that leave malloc to the program.
# usage: valgrind_tools.sh LIBRARY PROGRAM
set -eu
library=$1
program=$2
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

[ "$(valgrind --quiet --tool=none "$program" 2>&1)" = "done" ] || { echo "skipped: valgrind does not work here"; exit 77; }
for tool in none callgrind; do
    case $tool in callgrind) output=--callgrind-out-file=$work/out ;; *) output= ;; esac
    # shellcheck disable=SC2086
    LD_PRELOAD=$library valgrind --quiet --tool=$tool $output "$program" >"$work/stdout" 2>"$work/stderr" || {
        echo "$tool: exit status $?" >&2
        cat "$work/stderr" >&2
        exit 1
    }
    [ "$(cat "$work/stdout")" = "done" ] || { echo "$tool: it said '$(cat "$work/stdout")'" >&2; exit 1; }
    [ ! -s "$work/stderr" ] || { echo "$tool: $(cat "$work/stderr")" >&2; exit 1; }
    echo "$tool: done"
done
