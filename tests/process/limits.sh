#!/bin/sh
# Programs in little address space: they print what they print without a limit, on the C library's malloc.
# usage: limits.sh LIBRARY PROBE
set -eu
library=$1
probe=$2
limit_kib=400000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/work.py" <<'PYTHON'
import json, threading
def work():
    global text
    text = json.dumps([{"key": i, "value": "x" * (i % 300)} for i in range(20000)])
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(text), sum(len(str(i)) for i in range(100000)))
try:
    block = bytearray(1 << 30)
    print("too much was given")
except MemoryError:
    print("MemoryError")
print(len([str(i) for i in range(100000)]))
PYTHON
cat >"$work/work.bash" <<'BASH'
declare -A words
for ((i = 0; i < 5000; i++)); do words[w$((i % 700))]+=x; done
echo "${#words[@]} ${#words[w1]}"
seq 1 2000 | sort -r | (read -r first; echo "$first")
(echo child; (echo grandchild))
BASH
cat >"$work/work.sql" <<'SQL'
create table t(a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into t select i, 'text ' || (i * 7919 % 1000) from n;
create index x on t(b);
select count(*), count(distinct b), sum(a), max(b) from t;
select b, count(*) from t group by b order by 2 desc, 1 limit 5;
SQL

# same NAME COMMAND...: reads standard input from the file "input".
same() {
    name=$1
    shift
    "$@" <"$work/input" >"$work/expected" 2>&1
    status=0
    (
        ulimit -v "$limit_kib"
        LD_PRELOAD=$library exec "$@" <"$work/input"
    ) >"$work/found" 2>&1 || status=$?
    if [ "$status" -ne 0 ] || ! cmp -s "$work/expected" "$work/found"; then
        echo "limits.sh: $name differs in $limit_kib KiB of address space (exit status $status):" >&2
        diff "$work/expected" "$work/found" >&2 || true
        exit 1
    fi
    echo "$name: same"
}

: >"$work/input"
same probe "$probe" work
same bash bash "$work/work.bash"
if [ -x /usr/bin/python3 ]; then
    # Without a limit 1 GiB is granted, so the expected text needs it too.
    (ulimit -v 900000; /usr/bin/python3 "$work/work.py") >"$work/python" 2>&1
    for allocator in default malloc; do
        (
            ulimit -v "$limit_kib"
            LD_PRELOAD=$library PYTHONMALLOC=$allocator exec /usr/bin/python3 "$work/work.py"
        ) >"$work/found" 2>&1 || { cat "$work/found" >&2; exit 1; }
        diff "$work/python" "$work/found" >&2
        echo "python3 ($allocator): same"
    done
fi
if command -v sqlite3 >/dev/null; then
    cp "$work/work.sql" "$work/input"
    same sqlite3 sqlite3 :memory:
fi
