#!/bin/bash
# redis-server on a port of its own: a load, contents checked by value, a snapshot from a forked child while
# writes go on, a restart from that snapshot, an orderly end.
source "$(dirname "$0")/common.sh"
need redis-server redis-benchmark redis-cli

server=
stop_server() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap stop_server EXIT

client() {
    redis-cli -s "$work/socket" "$@"
}

# expect TEXT COMMAND...
expect() {
    local text=$1 found
    shift
    found=$(client "$@")
    [ "$found" = "$text" ] || fail "redis-cli $* said '$found', not '$text'"
}

start_server() {
    local port
    for _ in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 20000))
        LD_PRELOAD=$library HAKMEM_SS_OS_STATS=1 redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" \
            --unixsocket "$work/socket" --appendonly no --daemonize no --activedefrag no \
            --lazyfree-lazy-expire yes --lazyfree-lazy-server-del yes >"$work/server.log" 2>&1 &
        server=$!
        for _ in $(seq 100); do
            if [ "$(client ping 2>/dev/null)" = PONG ]; then
                mapped "$server"
                return
            fi
            kill -0 "$server" 2>/dev/null || break # the port is taken: another one
            sleep 0.05
        done
        wait "$server" || true
    done
    cat "$work/server.log" >&2
    fail "the server did not start"
}

end_server() {
    local status=0
    client shutdown nosave || true
    wait "$server" || status=$?
    server=
    [ "$status" -eq 0 ] || { cat "$work/server.log" >&2; fail "the server ended with status $status"; }
    grep -q '^\[SS_OS_STATS\] alloc=[0-9]' "$work/server.log" || fail "the library did not serve redis-server"
}

wait_for_snapshot() {
    for _ in $(seq 400); do
        if client info persistence | tr -d '\r' | grep -qx 'rdb_bgsave_in_progress:0'; then
            client info persistence | tr -d '\r' | grep -qx 'rdb_last_bgsave_status:ok' || fail "the snapshot failed"
            return
        fi
        sleep 0.05
    done
    fail "the snapshot did not end"
}

start_server
redis-benchmark -s "$work/socket" -q -n 3000 -c 20 -r 3000 -d 300 \
    -t set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_100,mset >"$work/load" || fail "redis-benchmark failed"
grep -q 'requests per second' "$work/load" || fail "redis-benchmark reported nothing"

client eval 'for i = 1, 20000 do redis.call("set", "value:" .. i, string.rep(tostring(i % 10), i % 2000)) end' 0
client eval 'for i = 1, 20000, 2 do redis.call("append", "value:" .. i, string.rep("y", 3000)) end' 0
client eval 'for i = 1, 50000 do redis.call("rpush", "list", "element" .. i) end' 0
for number in 1 2 9 1777 19998 19999; do
    length=$((number % 2000 + number % 2 * 3000))
    expect "$length" strlen "value:$number"
done
expect 888 getrange value:1998 0 2
expect element50000 lindex list -1

redis-benchmark -s "$work/socket" -q -n 20000 -c 10 -r 10000 -d 1000 -t set,lpush >/dev/null &
load=$!
client bgsave >/dev/null
wait_for_snapshot
wait "$load"
client flushall async >/dev/null
expect 0 dbsize
client memory purge >/dev/null
end_server

# The default file name of a snapshot.
[ -s "$work/dump.rdb" ] || fail "no snapshot was written"
start_server
expect 50000 llen list
expect 3999 strlen value:999
expect element777 lindex list 776
end_server
served redis-cli redis-cli --version
echo "redis: the same values before and after"
