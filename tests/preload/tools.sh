#!/bin/bash
# The small tools of a Unix system on larger input: sort, awk, find, tar, gzip, xz, grep, sed and diff.
# usage: tools.sh LIBRARY TREE
source "$(dirname "$0")/common.sh"
need sort awk find tar gzip xz grep sed diff cksum seq
tree=$(realpath "${2:?usage: tools.sh LIBRARY TREE}")

seq 1 100000 | awk '{ print ($1 * 7919) % 100003, "line", $1 % 977 }' >"$work/lines"

same sort sort --parallel=2 -S 8M -k 3,3n -k 1,1 "$work/lines"
same sort-unique sort -u -t ' ' -k 3,3 "$work/lines"
same awk awk '{ count[$3]++; sum[$3] += $1; text[$1 % 5000] = text[$1 % 5000] $3 }
    END { for (i = 0; i < 977; i++) print i, count[i], sum[i]; for (i = 0; i < 5000; i += 100) print length(text[i]) }' \
    "$work/lines"
same find find "$tree/include" "$tree/tests" -type f -name '*.[ch]' -printf '%s %f\n'
same grep grep -c -E '([0-9]+) line (9+|1.*7)$' "$work/lines"
same sed sed -n -E 's/^([0-9]+) line ([0-9]+)$/\2 \1/; 1~1000p' "$work/lines"
same tar tar --sort=name --mtime=@0 --owner=0 --group=0 -cf archive.tar -C "$tree" include tests
same_files tar
cp "$work/hakmem/archive.tar" "$work/archive.tar"
same untar tar -xf "$work/archive.tar"
same_files untar
cp "$work/archive.tar" "$work/input"
same gzip gzip -9 -n -c
same xz xz -6 -T 2 --block-size=65536 -c
cp "$work/hakmem.output" "$work/input"
same unxz xz -d -c
cmp "$work/hakmem.output" "$work/archive.tar" || fail "xz: what came back is not what went in"
: >"$work/input"
head -n 20000 "$work/lines" >"$work/unchanged"
sed 's/7/seven/' "$work/unchanged" >"$work/changed"
same diff diff "$work/unchanged" "$work/changed"
same missing ls -l "$work/no-such-file"
for tool in sort awk find grep sed tar gzip xz diff; do served "$tool" "$tool" --help; done
