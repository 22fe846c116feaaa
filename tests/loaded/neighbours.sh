#!/usr/bin/env bash
# Libraries that are preloaded beside ours, as Debian has them, in both orders: neighbours.sh LIBRARY LOAD
set -u
library=$1 load=$2 ran=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "@2020-01-01 00:00:00" >"$folder/time"
threads='import threading
def work():
    for i in range(30000): str(i) * 3
all = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in all]; [t.join() for t in all]'

try() {
  ran=$((ran + 1))
  local around=()
  [[ $1 != *libfakeroot* ]] || around=(fakeroot --) # which starts the server that its library asks
  FAKETIME_TIMESTAMP_FILE=$folder/time FAKETIME_NO_CACHE=1 timeout 60 "${around[@]}" env LD_PRELOAD="$1" "${@:2}" \
    >/dev/null 2>"$folder/errors" && return
  echo "LD_PRELOAD='$1' $2: status $?: $(tail -c 300 "$folder/errors")"
  failed=$((failed + 1))
}

system=$(dirname "$(realpath "$(ldd "$load" | awk '/libc.so.6/ { print $3 }')")")
for name in torsocks/libtorsocks.so faketime/libfaketime.so.1 faketime/libfaketimeMT.so.1 libfakeroot/libfakeroot-sysv.so \
  libeatmydata.so libprofiler.so.0; do
  [ -e "$system/$name" ] || continue
  for order in "$library $system/$name" "$system/$name $library"; do
    try "$order" /bin/true
    try "$order" "$load"
    try "$order" python3 -c "$threads"
  done
done
[ "$ran" -gt 0 ] || { echo "none of them is installed"; exit 77; }
echo "$ran runs, $failed failed"
[ "$failed" -eq 0 ]
