#!/usr/bin/env bash
# Builds Podium with every compiler of several releases of Debian, each in a minimal system, and compares the hashes of the first
# steps with the golden ones. Lists the results as a table. Needs root, debootstrap and a package mirror; hours on two cores.
#
#   scripts/check-matrix.sh                               # all of them
#   scripts/check-matrix.sh trixie/g++-14 forky/clang-22  # these
#   scripts/check-matrix.sh --root /srv/matrix ...        # keep the systems there and reuse them
#   scripts/check-matrix.sh --data ../shared/data ...     # the recipes' data; without them, only some recipes have hashes to compare
#
# The script builds the last commit. docs/building.md lists the last results.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=
data=()
while [[ ${1:-} == --* ]]; do
  case $1 in
    --root) folder=${2:?--root takes a folder} ;;
    --data) data=(--data "${2:?--data takes a folder}") ;;
    *) fail "unknown option $1; options are --root DIR and --data DIR" ;;
  esac
  shift 2
done
cells=("$@")
[[ ${#cells[@]} -gt 0 ]] || cells=(
  bookworm/{g++-12,clang-14,clang-16,clang-19,clang-22}
  trixie/{g++-12,g++-13,g++-14,clang-17,clang-18,clang-19,clang-22}
  forky/{g++-13,g++-14,g++-15,g++-16,clang-21,clang-22})
for cell in "${cells[@]}"; do
  [[ $cell =~ ^[a-z]+/(g\+\+|clang)-[0-9]+$ ]] || fail "\"$cell\" is not written SUITE/COMPILER, as trixie/g++-14 is"
done
keep=yes
if [[ -z $folder ]]; then
  keep=no
  folder=$(mktemp -d)
fi
mkdir -p "$folder"

failed=0
table="| release | compiler | result | warnings | seconds |"$'\n'"| --- | --- | --- | --- | --- |"
for cell in "${cells[@]}"; do
  suite=${cell%/*} compiler=${cell#*/} log=$folder/${cell/\//-}.log start=$SECONDS result="golden hashes"
  say "$cell"
  if ! "$root/scripts/check-clean-root.sh" --suite "$suite" --root "$folder/$suite" --keep "${data[@]}" \
    scripts/check-compiler.sh "$compiler" --golden >"$log" 2>&1; then
    failed=1 result="failed"
    grep -m 3 -E 'error|FAILED' "$log" >&2 || tail -n 3 "$log" >&2
  fi
  table+=$'\n'"| $suite | $compiler | $result | $(sed -n 's/^== warnings: //p' "$log") | $((SECONDS - start)) |"
done
printf '\n%s\n' "$table"
[[ $failed -eq 0 ]] || fail "some failed; the logs are in $folder"
[[ $keep == yes ]] || rm -rf --one-file-system "$folder"
