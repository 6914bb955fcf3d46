#!/usr/bin/env bash
# Runs clang-tidy over every file of FOLDER's compile_commands.json in the tree, except tests and
# fuzz targets, which include much and would double the time: scripts/tidy.sh FOLDER
# FOLDER is configured with PODIUM_UNITY, so that a header is read once for a folder, not for each of its files.
# A file is skipped if the preprocessed file is the same as when it last passed with the same .clang-tidy and the same version of
# clang-tidy. CI has no results of earlier runs, so it checks every file.
# scripts/lint.sh calls this; scripts/tidy.sh FOLDER --one FILE is how it calls itself.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

folder=$1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/podium/tidy
mkdir -p "$cache"

if [[ ${2:-} == --one ]]; then
  file=$3
  command=$4
  if [[ -z ${CI:-} ]]; then
    # The command, with preprocessing only; comments are kept because of NOLINT.
    key=$(cd "$folder" && eval "${command/ -o * -c / -E -C -o - -c }" 2>/dev/null |
      cat - "$root/.clang-tidy" <(echo "$clang_tidy") | sha256sum | cut -c 1-40)
    [[ ! -e $cache/$key ]] || exit 0
  fi
  start=$SECONDS
  if output=$("$clang_tidy" -p "$folder" --quiet "$file" 2>/dev/null); then
    [[ -z ${key:-} ]] || touch "$cache/$key"
    [[ -z ${PODIUM_TIDY_TIMES:-} ]] || echo "$((SECONDS - start)) s ${file#"$root"/}" >&2
    exit 0
  fi
  # clang-tidy prints its findings on standard output; nothing there means that it could not read the file.
  if [[ -z $output ]]; then output=$("$clang_tidy" -p "$folder" "$file" 2>&1 | tail -n 20); fi
  printf '%s\n' "$output"
  exit 1
fi

# One "FILE<newline>COMMAND" per source file; the compilation database has one field per line.
awk -v root="$root/" '
  /"command":/ { sub(/^ *"command": "/, ""); sub(/",?$/, ""); gsub(/\\"/, "\""); gsub(/\\\\/, "\\"); command = $0 }
  /"file":/ {
    sub(/^ *"file": "/, ""); sub(/",?$/, "")
    if (index($0, root) == 1 && (index($0, root "build") != 1 || /\/Unity\//) && !/_(test|fuzz)\.cc$/ && !/_test\.dir\// && !seen[$0]++) printf "%s%c%s%c", $0, 0, command, 0
  }' "$folder/compile_commands.json" |
  xargs -0 -n 2 -P "$jobs" "$root/scripts/tidy.sh" "$folder" --one
