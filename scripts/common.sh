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

# build PRESET [TARGET...]: configure and build, silent unless it fails.
build() {
  local preset=$1
  shift
  local log=build/log/$preset.log
  mkdir -p build/log
  if ! { cmake --preset "$preset" && cmake --build "build/$preset" -j "$JOBS" ${1:+--target "$@"}; } >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "${0##*/}: preset $preset does not build; the whole log is $log" >&2
    return 1
  fi
}

# Every C and C++ source of ours, one per line.
list_sources() {
  find include src tests bench cmake lab peers -name '*.[ch]' -o -name '*.cc' | sort
}
