#!/usr/bin/env bash
# Programs close standard error before they end, and the report appears all the same: report_at_exit.sh LIBRARY
set -eu
library=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# expect WHAT TEXT WANTED
expect() {
  case $2 in
  *"$3"*) ;;
  *)
    echo "$1: no \"$3\", but: $2" >&2
    exit 1
    ;;
  esac
}

# coreutils' do so in an exit handler
for program in ls "sort /dev/null"; do
  # shellcheck disable=SC2086
  {
    text=$(HAKMEM_STATS=1 LD_PRELOAD=$library $program 2>&1 >/dev/null | cat)
    expect "$program" "$text" "hakmem statistics"
    text=$(HAKMEM_SS_OS_STATS=1 LD_PRELOAD=$library $program 2>&1 >/dev/null | cat)
    expect "$program" "$text" "[SS_OS_STATS]"
    text=$(HAKMEM_PROFILE_FILE=$folder/none/p LD_PRELOAD=$library $program 2>&1 >/dev/null | cat)
    expect "$program, no folder" "$text" "hakmem: no profile $folder/none/p"
  }
done

# a file of the program's that has the number of standard error by then gets nothing: tests/traps/stderr_reused.c
