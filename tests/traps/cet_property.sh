#!/bin/sh
# The library says that it may run under control-flow enforcement, and it may: its entry points begin as indirect
# branches must find them.
# usage: cet_property.sh LIBRARY
set -eu
library=$1
command -v readelf >/dev/null && command -v objdump >/dev/null || { echo "skipped: no binutils"; exit 77; }
readelf --file-header "$library" | grep -q 'X86-64' || { echo "skipped: not for this processor"; exit 77; }

notes=$(readelf --notes --wide "$library")
for property in IBT SHSTK; do
    printf '%s\n' "$notes" | grep -q "x86 feature:.*$property" || { echo "no $property in its notes" >&2; exit 1; }
done
for entry in malloc free calloc realloc hak_malloc hak_free _Znwm _ZdlPv; do
    first=$(objdump --disassemble="$entry" --no-show-raw-insn "$library" | grep -A 1 "^[0-9a-f]* <$entry>:" | tail -n 1)
    case $first in *endbr64*) ;; *) echo "$entry begins with: $first" >&2; exit 1 ;; esac
done
