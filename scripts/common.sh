# Sourced by the scripts: one place for the repository's root, for messages and for a clean environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

JOBS=${JOBS:-$(nproc)}

# A caller's settings must not reach the programs that are built, tested or measured here.
unset LD_PRELOAD
for variable in $(compgen -e HAKMEM_ || true); do unset "$variable"; done

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# The last line of a log that says something, short enough for one line of a terminal.
said_last() {
  tail -c 4000 "$1" | tr '\r' '\n' | grep '[[:alnum:]]' | tail -n 1 | cut -c 1-60 || true
}

# watched WHAT LOG COMMAND...: run it, its output into the log; say meanwhile how long it takes and where it is, and at the end
# that it is done.
watched() {
  local what=$1 log=$2 status=0 start=$SECONDS ticker
  shift 2
  : >"$log"
  {
    local pause=15 line='%s: %d s%s\n' last
    [ ! -t 2 ] || pause=1 line='\r\033[K%s: %d s%s'
    echo "$what"
    while sleep "$pause"; do
      last=$(said_last "$log")
      printf "$line" "$what" $((SECONDS - start)) "${last:+: $last}"
    done
  } >&2 &
  ticker=$!
  "$@" >"$log" 2>&1 || status=$?
  kill "$ticker" 2>/dev/null
  wait "$ticker" 2>/dev/null || true
  [ ! -t 2 ] || printf '\r\033[K' >&2
  [ "$status" -ne 0 ] || echo "$what: done in $((SECONDS - start)) s" >&2
  return "$status"
}

# The Python of the laboratory. Debian's own comes first: a version manager's shim may answer for a name and then refuse.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# configure PRESET, quietly, with signs of life, unless it fails. Ninja itself runs CMake again after a change of its files,
# but for the presets.
configure() {
  mkdir -p build/log
  local make=(cmake --preset "$1")
  [ ! "build/$1/build.ninja" -nt CMakePresets.json ] || make=(ninja -C "build/$1" build.ninja)
  logged "$1" "configuring $1" "${make[@]}"
}

# build PRESET [TARGET...]: configure and build.
build() {
  configure "$1" && logged "$1" "building $1" cmake --build "build/$1" -j "$JOBS" ${2:+--target "${@:2}"}
}

# logged PRESET WHAT COMMAND...
logged() {
  local log=build/log/$1.log
  watched "$2" "$log" "${@:3}" || {
    tail -n 60 "$log" >&2
    echo "${0##*/}: preset $1 does not build; the whole log is $log" >&2
    return 1
  }
}

# Every C and C++ source of ours, one per line.
list_sources() {
  find include src tests bench lab -name '*.[ch]' -o -name '*.cc' -o -name '*.hpp' | sort
}
