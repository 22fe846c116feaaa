#!/bin/sh
# redis.sh REQUESTS: a Redis server and its benchmark, on a free port.
set -eu
port=$((20000 + $$ % 20000))
redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --activedefrag no --loglevel warning &
server=$!
until redis-cli -p "$port" ping >/dev/null 2>&1; do kill -0 "$server"; sleep 0.05; done
redis-benchmark -p "$port" -t set,get,lpush -n "${1:-200000}" -r 100000 -d 200 -P 32 -c 50 --csv
redis-cli -p "$port" shutdown nosave >/dev/null 2>&1 || true
wait "$server"
