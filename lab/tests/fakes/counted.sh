#!/bin/sh
# Counts its executions in $COUNT and does what $AT_N says at the n-th: exit, sleep, change (its own file), kill (the parent).
# The preflight, which asks the dynamic linker, is not counted.
[ -n "$LD_DEBUG" ] && exit 0
n=0
[ -s "$COUNT" ] && read -r n < "$COUNT"
n=$((n + 1))
echo $n > "$COUNT"
eval "what=\${AT_$n:-\$ALWAYS}"
case "$what" in
  exit) echo "failing on purpose" >&2; exit 7 ;;
  sleep) exec sleep "${NAP:-60}" ;;
  change) echo "# changed" >> "$0" ;;
  kill) kill -9 $PPID ;;
esac
echo "ops ${RATE:-1000}"
