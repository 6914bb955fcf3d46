#!/usr/bin/env bash
# Runs clang-tidy 14 over every file of FOLDER's compile_commands.json that lies in the tree, but tests and
# fuzz targets, which include much and would double the time: scripts/tidy.sh FOLDER
# A file passes without a look when the preprocessor made the same of it, under the same .clang-tidy (the root's and its
# folder's), as when it last passed. scripts/lint.sh calls this; scripts/tidy.sh FOLDER --one FILE is how it calls itself.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

folder=$1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/podium/tidy
mkdir -p "$cache"

if [[ ${2:-} == --one ]]; then
  file=$3
  command=$4
  # The command as it stands, preprocessing alone; comments stay in, since NOLINT is one.
  configs=("$root/.clang-tidy")
  [[ ! -e ${file%/*}/.clang-tidy ]] || configs+=("${file%/*}/.clang-tidy")
  key=$(cd "$folder" && eval "${command/ -o * -c / -E -C -o - -c }" 2>/dev/null | cat - "${configs[@]}" | sha256sum | cut -c 1-40)
  [[ ! -e $cache/$key ]] || exit 0
  start=$SECONDS
  if output=$(clang-tidy-14 -p "$folder" --quiet "$file" 2>/dev/null); then
    touch "$cache/$key"
    [[ -z ${PODIUM_TIDY_TIMES:-} ]] || echo "$((SECONDS - start)) s ${file#"$root"/}" >&2
    exit 0
  fi
  # clang-tidy prints its findings on standard output; nothing there means that it could not read the file.
  if [[ -z $output ]]; then output=$(clang-tidy-14 -p "$folder" "$file" 2>&1 | tail -n 20); fi
  printf '%s\n' "$output"
  exit 1
fi

# One "FILE<newline>COMMAND" a file of ours; the compilation database has one field a line.
awk -v root="$root/" '
  /"command":/ { sub(/^ *"command": "/, ""); sub(/",?$/, ""); gsub(/\\"/, "\""); gsub(/\\\\/, "\\"); command = $0 }
  /"file":/ {
    sub(/^ *"file": "/, ""); sub(/",?$/, "")
    if (index($0, root) == 1 && index($0, root "build") != 1 && !/_(test|fuzz)\.cc$/ && !seen[$0]++) printf "%s%c%s%c", $0, 0, command, 0
  }' "$folder/compile_commands.json" |
  xargs -0 -n 2 -P "$jobs" "$root/scripts/tidy.sh" "$folder" --one
