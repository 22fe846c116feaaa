#!/bin/bash
# gcc and g++ compile this project's own files: the objects must be those that they make without the library.
# usage: gcc.sh LIBRARY TREE [few]    (few: each tenth file)
source "$(dirname "$0")/common.sh"
need gcc g++
tree=$(realpath "${2:?usage: gcc.sh LIBRARY TREE [few]}")
every=1
[ "${3:-}" != few ] || every=10

cat >"$work/script" <<'BASH'
# Debug information names the directory of the run.
files=("$1"/src/{base,system,pages,blocks,threads,hardened,malloc}/*.c "$1"/tests/process/*.c)
for ((i = 0; i < ${#files[@]}; i += $2)); do
    file=${files[i]}
    gcc -std=gnu17 -O2 -g "-fdebug-prefix-map=$PWD=." -D_GNU_SOURCE -DEARLY_LETTER="'a'" -I"$1/include" -I"$1/src" -c "$file" \
        -o "$(basename "$file").o" && echo "compiled $(basename "$file")"
done
g++ -std=c++17 -O2 -c "$1/tests/process/cxx_new.cc" -o cxx_new.o && echo "compiled cxx_new.cc"
gcc -shared -fPIC -O3 -flto -I"$1/include" "$1/tests/process/plugin.c" -o plugin.so && echo "linked plugin.so"
BASH
same gcc bash "$work/script" "$tree" "$every"
same_files gcc
compiled=$(grep -c '^compiled' "$work/hakmem.output")
[ "$((compiled * every))" -ge 50 ] || fail "only $compiled files were compiled"
# What uses memory is the compiler proper, which the driver starts.
cd "$work"
served cc1 "$(gcc -print-prog-name=cc1)" -quiet -std=gnu17 "$tree/tests/process/plugin.c" -o "$work/plugin.s"
