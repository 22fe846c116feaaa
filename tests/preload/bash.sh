#!/bin/bash
# bash: arrays, string building, subshells, pipelines, here-documents, job control.
source "$(dirname "$0")/common.sh"
need bash seq sort

cat >"$work/script" <<'BASH'
declare -A table
declare -a list
for ((i = 0; i < 8000; i++)); do
    table[key$((i * 7919 % 1500))]+="$i,"
    list+=("item $((i % 97))")
done
echo "${#table[@]} ${#list[@]} ${table[key5]}"
printf '%s\n' "${!table[@]}" | sort | head -n 5
text=
for ((i = 0; i < 3000; i++)); do text="$text$i:"; done
echo "${#text} ${text//1/x}" | cut -c 1-200
deep() { (($1 == 0)) && { echo "${text:0:10}"; return; }; (deep $(($1 - 1))); }
deep 30
for i in {1..40}; do seq 1 200 | (read -r first; echo "$first $i"); done | sort -n -k 2 | tail -n 3
while read -r line; do list+=("$line"); done < <(seq 1 5000)
echo "${#list[@]}"
wait < <(echo) || true
for i in 1 2 3 4; do (exit "$i") & jobs[i]=$!; done
for i in 1 2 3 4; do wait "${jobs[i]}"; echo "job $?"; done
mapfile -t lines <<<"$(seq 1 20000)"
echo "${#lines[@]} ${lines[19999]}"
unset table list lines
cat <<END
$(echo "$(echo nested "$(echo more)")")
END
exit 7
BASH
same bash bash "$work/script"
[ "$(cat "$work/hakmem.status")" = 7 ] || fail "the script did not reach its end"
served bash bash "$work/script"
