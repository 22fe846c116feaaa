#!/usr/bin/env bash
# Programs close standard error before they end, and the report appears all the same: report_at_exit.sh LIBRARY CLOSES_ALL
set -eu
library=$1 closes_all=$2
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

# others close all that they find
for way in closefrom loop; do
  HAKMEM_STATS=1 LD_PRELOAD=$library "$closes_all" $way 2>"$folder/file"
  expect "$way, file" "$(cat "$folder/file")" "hakmem statistics"
  # a pipe into which the shell may write, too: its reader sees no end meanwhile
  text=$(bash -c 'HAKMEM_STATS=1 LD_PRELOAD=$1 "$2" "$3"; true' shell "$library" "$closes_all" $way 2>&1)
  expect "$way, pipe of the shell" "$text" "hakmem statistics"
  text=$(bash -c 'HAKMEM_PROFILE_FILE=$4/none/p LD_PRELOAD=$1 "$2" "$3"; true' shell "$library" "$closes_all" $way "$folder" 2>&1)
  expect "$way, no folder" "$text" "hakmem: no profile $folder/none/p"
  if command -v script >/dev/null; then # on a terminal
    text=$(HAKMEM_STATS=1 script -qec "env LD_PRELOAD=$library $closes_all $way" /dev/null </dev/null)
    expect "$way, terminal" "$text" "hakmem statistics"
  fi
done
# a file of the program's that has the number of standard error by then gets nothing: tests/traps/stderr_reused.c
