#!/bin/sh
# redis_churn.sh PORT: a server's day in a second: many small values, of which the older expire, then fewer larger ones.
# Prints the server's resident memory when it has rested.
set -eu
port=$1
rest_s=1

redis-cli -p "$port" --no-raw eval '
for i = 1, 120000 do redis.call("SET", "small:" .. i, string.rep("x", 40 + i * 7919 % 260)) end
for i = 1, 96000 do redis.call("DEL", "small:" .. i) end
for i = 1, 12000 do redis.call("SET", "large:" .. i, string.rep("y", 600 + i * 104729 % 1400)) end
return redis.call("DBSIZE")' 0 >/dev/null
sleep "$rest_s"
# A request, so that an allocator that works only when it is called has its turn.
redis-cli -p "$port" set small:1 x >/dev/null
redis-cli -p "$port" info memory | tr -d '\r' | awk -F: '$1 == "used_memory_rss" { printf "resident_kib = %d\n", $2 / 1024 }'
