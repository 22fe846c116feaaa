#!/bin/bash
# git: a repository made of a copy of a source tree; the same content must give the same objects.
# usage: git.sh LIBRARY TREE
source "$(dirname "$0")/common.sh"
need git
tree=$(realpath "${2:?usage: git.sh LIBRARY TREE}")

# Neither the user's settings nor the clock may enter the objects.
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@example.org
export GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@example.org

mkdir "$work/tree"
for part in src include; do
    if [ -d "$tree/$part" ]; then cp -R "$tree/$part" "$work/tree/"; fi
done

cat >"$work/script" <<'BASH'
set -e
step=0
commit() {
    step=$((step + 1))
    git add -A
    export GIT_AUTHOR_DATE="2020-01-01T00:00:0$((step % 10)) +0000" GIT_COMMITTER_DATE="2020-01-01T00:00:0$((step % 10)) +0000"
    git commit -q -m "step $step"
}
git -c init.defaultBranch=main init -q repository
cd repository
cp -R "$1"/. .
commit
for i in 1 2 3 4 5; do
    find . -path ./.git -prune -o -type f -print | sort | while read -r file; do
        [ "${#file}" -eq $((20 + i)) ] && echo "line $i" >>"$file"
    done || true
    echo "$i" >"step$i"
    commit
done
file=$(git ls-files | grep '\.[ch]$' | head -n 1)
git log --stat | tail -n 60
git blame "$file" | head -n 40
git diff HEAD~3 | head -n 100
git checkout -q -b side HEAD~2
echo side >side
commit
git merge -q -m merge main
git gc -q --aggressive
git fsck --full --strict
git count-objects -v | grep -E '^(count|in-pack|packs)'
git rev-list --objects --all | wc -l
git grep -n -c include HEAD | head -n 20
cd ..
git clone -q --no-local repository clone
git -C clone log --format='%H %s' --all
git -C clone fsck
git -C clone archive HEAD | cksum
BASH
same git bash "$work/script" "$work/tree"
served git git -C "$work/hakmem/repository" gc -q --prune=now
