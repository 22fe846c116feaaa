#!/usr/bin/env bash
# Programs of coreutils close standard error before they end: report_at_exit.sh LIBRARY. The report reaches a pipe all the same.
set -eu
library=$1
for program in ls "sort /dev/null"; do
  for option in HAKMEM_STATS=1 HAKMEM_SS_OS_STATS=1; do
    # shellcheck disable=SC2086
    text=$(env "$option" LD_PRELOAD="$library" $program 2>&1 >/dev/null | cat)
    case $text in
    *"hakmem statistics"* | *"[SS_OS_STATS]"*) ;;
    *)
      echo "$option $program: no report" >&2
      exit 1
      ;;
    esac
  done
done
