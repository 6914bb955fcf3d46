#!/usr/bin/env bash
# Checks every tracked file: formatting (clang-format 14), clang-tidy, shellcheck, hadolint, and the rules of this repository that
# a text search can check.
#
#   scripts/lint.sh            # all
#   scripts/lint.sh --quick    # without clang-tidy and hadolint
#   scripts/lint.sh --fix      # fix the formatting, then check
#
# clang-tidy's result for a file is cached in the user's cache by the preprocessed file, so that only changed files are checked
# again.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

quick=no
fix=no
for argument in "$@"; do
  case $argument in
    --quick) quick=yes ;;
    --fix) fix=yes ;;
    *) fail "unknown option $argument; options are --quick and --fix" ;;
  esac
done
scripts/install-dependencies.sh lint

failed=0
finding() {
  failed=1
  printf '%s\n' "$*" >&2
}

# Tracked files and those that git would track, without what was deleted.
files=()
while IFS= read -r -d '' file; do [[ -f $file ]] && files+=("$file"); done \
  < <(git ls-files -z --cached --others --exclude-standard)
matching() { printf '%s\n' "${files[@]}" | grep -E "$1" | grep -vE '(^|/)(corpus|testdata)/' || true; }
mapfile -t code < <(matching '\.(h|cc|cu|cuh)$')
mapfile -t text < <(matching '\.(h|cc|cu|cuh|cmake|in|txt|sh|md|toml|proto|py)$|^\.ci/run$')
mapfile -t shell < <(matching '\.sh$|^\.ci/run$')

say "formatting of ${#code[@]} files"
if [[ $fix == yes ]]; then clang-format-14 -i "${code[@]}"; fi
unformatted=$(printf '%s\0' "${code[@]}" | xargs -0 -n 16 -P "$jobs" clang-format-14 --dry-run 2>&1 |
  sed -nE 's/^([^:]+):[0-9]+:[0-9]+: .*/\1/p' | sort -u)
[[ -z $unformatted ]] || finding "$unformatted"$'\n'"^ not formatted; scripts/lint.sh --fix corrects this"

say "rules of the house"
for file in "${code[@]}" "${shell[@]}"; do
  lines=$(wc -l <"$file")
  [[ $lines -le 600 ]] || finding "$file has $lines lines; the limit is 600: split it"
done
while read -r files folder; do
  [[ $files -le 40 ]] || finding "$folder has $files files; the limit is 40: divide it"
done < <(printf '%s\n' "${code[@]}" | xargs -n 1 dirname | sort | uniq -c)
# search_code PATTERN RULE: no source file may match.
search_code() {
  local hits
  hits=$(printf '%s\0' "${code[@]}" | xargs -0 grep -nE "$1" -- /dev/null || true)
  [[ -z $hits ]] || finding "$hits"$'\n'"^ $2"
}
search_code '^.{101,}' 'wider than 100 columns'
search_code '\bassert\(' 'assert: use PODIUM_REQUIRE or PODIUM_CHECK, which hold in every build'
# search PATTERN RULE: no text file may match. This file names what it looks for.
search() {
  local hits
  hits=$(printf '%s\0' "${text[@]}" | xargs -0 grep -nIE "$1" -- /dev/null | grep -v '^scripts/lint\.sh:' || true)
  [[ -z $hits ]] || finding "$hits"$'\n'"^ $2"
}
search '\b(TODO|FIXME|XXX)\b' 'finish it, or say in words what is left out and why'
search '(^|[^A-Za-z0-9_.~-])/(home|root|work|mnt|tmp/[A-Za-z_]+)[-/]' 'a path of one machine'
search '(pypi\.org|pythonhosted\.org|deb\.debian\.org|snapshot\.debian\.org|archive\.ubuntu\.com|docker\.(io|com|pkg\.dev)|artifactregistry)' \
  'a registry host: name the package instead'
search '#include *[<"](format|regex)[>"]' 'not in this house: format is missing in gcc 12, regex is slow to compile'
search '[[:blank:]]+$' 'blanks at the end of a line'

# The rows of PODIUM_VERSIONS, without blanks, and those of the document.
rows=$(sed -nE 's/^ *"([^"|]+(\|[^"|]+){3})"\)?$/|\1|/p' cmake/PodiumVersions.cmake | tr -d ' ')
[[ -n $rows ]] || finding "cmake/PodiumVersions.cmake: no row of PODIUM_VERSIONS was found"
hits=$(grep -vxFf <(tr -d ' ' <docs/building.md) <<<"$rows" || true)
[[ -z $hits ]] || finding "$hits"$'\n'"^ a row of PODIUM_VERSIONS that docs/building.md lacks"

mapfile -t including < <(printf '%s\n' "${code[@]}" | grep -E '\.(h|cc)$')
hits=$(awk -f scripts/includes.awk "${including[@]}")
[[ -z $hits ]] || finding "$hits"$'\n'"^ a standard header that is not included directly"

if command -v shellcheck >/dev/null; then
  say "shellcheck of ${#shell[@]} scripts"
  shellcheck --external-sources --source-path=SCRIPTDIR --severity=style "${shell[@]}" || finding "shellcheck: see above"
fi

if [[ $quick == no ]]; then
  scripts/install-dependencies.sh build test fuzz tidy docker
  say "hadolint"
  "$hadolint" Dockerfile || finding "hadolint: see above"
  configure build-lint -DCMAKE_CXX_COMPILER="$(clang_program)" -DPODIUM_TESTS=ON -DPODIUM_FUZZ=ON -DPODIUM_BENCH=ON \
    -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DPODIUM_WERROR=ON -DPODIUM_UNITY=ON
  # Headers that the build generates.
  ninja -C build-lint podium_version_header podium_messages_code podium_headers >build-lint/generated.log || finding "$(cat build-lint/generated.log)"
  say "clang-tidy"
  scripts/tidy.sh build-lint || finding "clang-tidy: see above"
fi

[[ $failed -eq 0 ]] || fail "failed"
echo "lint: all is well" >&2
