#!/usr/bin/env bash
# What malloc(3) and its kind promise, from glibc and from the library preloaded: promises.sh PROGRAM LIBRARY. A line
# that differs fails, but for those named here.
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$program" >"$folder/glibc"
LD_PRELOAD=$2 "$program" >"$folder/hakmem"
[ "$(wc -l <"$folder/glibc")" -gt 1000 ]
expected=(
  # errno as well as the value: the manual page has the one, glibc the other
  'malloc_info 0x(1|f+) 0: 22 errno (0|22)'
  # nothing may be written to a block of no bytes, so none are usable
  'malloc_usable_size of malloc\(0\) 0 0: (0|24) errno 0'
  # a parameter that <malloc.h> does not have is an error here, and ignored by glibc
  'mallopt 0x3fffffff 0x[0-9a-f]+: [01] errno 0' 'mallopt 0x3fffffff 0: [01] errno 0'
  # a bound beyond the fastbins: an error as in the manual page; ignored by glibc 2.43, which has no fastbins
  'mallopt 0x1 0x(f+|a1|100000): [01] errno 0'
  # alignments that are no power of two: rounded up, as glibc before 2.38 does; later ones refuse
  'aligned_alloc (0|0x3|0xc|0x18|0x30|0x64|0x1388|0x7fffffffffffffff) [^:]*: (block errno 0|NULL errno (12|22))'
)
pattern=$(IFS='|' && echo "${expected[*]}")
unexpected=$(diff "$folder/glibc" "$folder/hakmem" | grep -E '^[<>]' | grep -vxE "[<>] ($pattern)" || true)
if [ -n "$unexpected" ] || grep -n BAD "$folder/hakmem"; then
  printf '%s\n' "promises differ (< glibc, > hakmem):" "$unexpected" >&2
  exit 1
fi
