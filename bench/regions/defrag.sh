#!/bin/sh
# defrag.sh SERVER PORT: active defragmentation of a Redis server. 700,000 values of 80 bytes, of which one in four stays.
# Prints resident memory when all are there, after the deletions, and after ten seconds of defragmentation.
# The server is Redis 7.0 with its own jemalloc, or with redis.patch, which is for `make MALLOC=libc` and hakmem:
#   make MALLOC=libc CFLAGS="-DUSE_HAKMEM -Iinclude" LDFLAGS="-Wl,--no-as-needed libhakmem.so" redis-server
set -eu
server=$1 port=$2
values=700000 seconds=10

ask() { redis-cli -p "$port" "$@"; }
report() {
  kib=$(awk '/^Rss/ { print $2 }' "/proc/$pid/smaps_rollup")
  used=$(ask info memory | tr -d '\r' | awk -F: '$1 == "used_memory" { print int($2 / 1024) }')
  echo "$1: resident_kib=$kib used_kib=$used"
}

"$server" --port "$port" --save "" --appendonly no --enable-debug-command yes --loglevel warning >/dev/null &
pid=$!
trap 'kill $pid' EXIT
until ask ping >/dev/null 2>&1; do sleep 0.1; done
ask debug populate "$values" key 80 >/dev/null
report full
# Park and Miller's generator: the same values stay with each server.
awk -v n="$values" 'BEGIN { x = 1; for (i = 0; i < n; i++) { x = x * 16807 % 2147483647; if (x % 4) print "DEL key:" i } }' |
  redis-cli -p "$port" --pipe >/dev/null
ask memory purge >/dev/null
report evicted
for setting in active-defrag-ignore-bytes=1mb active-defrag-threshold-lower=5 active-defrag-cycle-min=50 \
  active-defrag-cycle-max=75 activedefrag=yes; do
  ask config set "${setting%=*}" "${setting#*=}" >/dev/null
done
sleep "$seconds"
ask memory purge >/dev/null
report defragmented
