# Sourced by tests of packages after common.sh: clean roots, and programs in them. Needs root; the test has its folder in $work.
roots=$PWD/build/roots

# root_tar NAME VARIANT PACKAGES [RELEASE]: a root of this release of Debian, or of another, as an archive in build/roots, made once.
root_tar() {
  local codename=${4:-$(. /etc/os-release && echo "$VERSION_CODENAME")} tar log=build/log/root.log
  tar=$roots/$codename-$1.tar
  mkdir -p "$roots" build/log
  if [ ! -f "$tar" ]; then
    scripts/debian-sources ${4:+"$4"} >"$work/sources.list"
    # A mirror may be a copy of an earlier day. The signature is checked all the same.
    watched "making the root $codename-$1" "$log" mmdebstrap --variant="$2" ${3:+"--include=$3"} ${4:+'--aptopt=Acquire::Check-Valid-Until "false"'} \
      "$codename" "$tar.part" --format=tar "$work/sources.list" ||
      { rm -f "$tar.part"; tail -n 20 "$log" >&2; return 1; }
    mv "$tar.part" "$tar"
  fi
  echo "$tar"
}

# clean_root NAME PACKAGES: a fresh copy with these packages besides what apt needs, in $work/NAME.
clean_root() {
  local tar
  tar=$(root_tar "$1" apt "$2") || fail "mmdebstrap fails"
  mkdir -p "$work/$1" "$work/packages"
  tar -xf "$tar" -C "$work/$1" --exclude=./dev
  mkdir -p "$work/$1/dev" "$work/$1/packages"
}

# Mounts, processes and a network of one's own; all ends with it.
alone=(unshare --mount --pid --net --fork --kill-child)

# inside NAME: run the commands on standard input in that root, with $work/packages as /packages there; within $within seconds.
inside() {
  timeout "${within:-3600}" "${alone[@]}" bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --bind "$2" "$1/packages" &&
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$1" bash -euo pipefail -c "$3"' - \
    "$work/$1" "$work/packages" "$(cat)" </dev/null ||
    fail "fails in the clean root '$1'"
}

# start NAME PROGRAM ARGUMENT...: in that root, which need have nothing else, with the environment $environment (words NAME=VALUE);
# $started is its number here, once it has written /ready. `finish` ends it.
start() {
  local root=$work/$1
  shift
  mkdir -p "$root/proc"
  rm -f "$root/ready" "$root/socket"
  "${alone[@]}" bash -c 'mount -t proc proc "$1/proc" && exec /usr/bin/python3 -c "
import os, sys
os.chroot(sys.argv[1])
os.chdir(\"/\")
os.execve(sys.argv[3], sys.argv[3:], dict(word.split(\"=\", 1) for word in sys.argv[2].split()))" "$@"' - "$root" "${environment:-}" "$@" &
  unshared=$!
  for _ in {1..300}; do
    [ ! -e "$root/ready" ] || break
    kill -0 "$unshared" 2>/dev/null || fail "it ends at once: $*"
    sleep 0.1
  done
  [ -e "$root/ready" ] || fail "is not ready after 30 s: $*"
  started=$(tr -d ' ' <"/proc/$unshared/task/$unshared/children")
}

finish() {
  kill -9 "$unshared"
  wait "$unshared" 2>/dev/null || true
}

# asked NAME: what the service on /socket in that root answers to a request.
asked() {
  (cd "$work/$1" && /usr/bin/python3 -c '
import socket
with socket.socket(socket.AF_UNIX) as it:
    it.connect("socket")
    it.sendall(b"GET /abc HTTP/1.0\r\n\r\n")
    print(it.makefile().read())')
}

# A service for Node, which keeps a buffer of every request.
write_service() {
  cat >"$1" <<'JS'
const http = require("http"), fs = require("fs");
const kept = [];
http.createServer((request, answer) => { kept.push(Buffer.from(request.url.repeat(1000))); answer.end("kept " + kept.length); })
  .listen("/socket", () => fs.writeFileSync("/ready", ""));
JS
}
