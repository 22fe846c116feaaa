#!/usr/bin/env bash
# record.sh [NAME...]: records the traces of this folder anew, of redis python sqlite compiler threads. Needs
# redis-server, redis-tools, sqlite3, python3 and g++. $HAK: how hak is called, when it is not the checkout's .venv/bin/hak.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bench=$(dirname "$here")
hak=${HAK:-$bench/../.venv/bin/hak}
# A trace says where it was recorded: in a place that is the same everywhere.
work=/tmp/hak-traces
mkdir "$work"
trap 'rm -rf "$work"' EXIT
cd "$work"

record() {
  local name=$1
  shift
  "$hak" record -o "$here/$name.trace" -- "$@" >output
}

redis() {
  cp "$here/redis.sh" .
  record redis ./redis.sh 9000
}
python() {
  local code='import ast, inspect, textwrap; print(len(ast.dump(ast.parse(inspect.getsource(textwrap)))))'
  PYTHONMALLOC=malloc PYTHONHASHSEED=1 record python /usr/bin/python3 -c "$code"
}
sqlite() {
  sed 's/150000/15000/' "$bench/workload.sql" >workload.sql
  record sqlite sqlite3 -batch -bail -init workload.sql :memory: .quit
}
compiler() {
  cp "$here/compiled.cc" .
  record compiler g++ -O0 -std=c++17 -S -o /dev/null compiled.cc
}
threads() {
  g++ -O2 -std=c++17 -pthread -o kvserver "$here/kvserver.cc"
  record threads ./kvserver 9000
}

[ $# -gt 0 ] || set -- redis python sqlite compiler threads
for name in "$@"; do
  "$name"
done
