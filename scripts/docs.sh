#!/usr/bin/env bash
# Renders the public headers (cmake/PodiumHeaders.cmake) with Doxygen in build-docs/html, and fails on any warning and on
# missing comments: of headers, classes, enumerations, types, and functions that take arguments. Fields, operators and
# functions without arguments need none.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"
scripts/install-dependencies.sh docs

mapfile -t headers < <(sed -n '/^set(PODIUM_PUBLIC_HEADERS/,/)/p' cmake/PodiumHeaders.cmake |
  grep -oE '[a-z_0-9/]+\.h' | sed 's|^|src/|')
[[ ${#headers[@]} -gt 0 ]] || fail "found no list of public headers in cmake/PodiumHeaders.cmake"
mkdir -p build-docs

# render EXTRACT_ALL WARN_IF_UNDOCUMENTED: prints Doxygen's warnings.
render() {
  doxygen - 2>&1 >/dev/null <<END || true
PROJECT_NAME = Podium
INPUT = ${headers[*]}
OUTPUT_DIRECTORY = build-docs
STRIP_FROM_PATH = src
STRIP_FROM_INC_PATH = src
INCLUDE_PATH = src
FILTER_PATTERNS = "*.h=awk -f scripts/doxygen-comments.awk"
EXTRACT_ALL = $1
WARN_IF_UNDOCUMENTED = $2
EXCLUDE_SYMBOLS = podium::internal
MACRO_EXPANSION = YES
HAVE_DOT = NO
GENERATE_LATEX = NO
QUIET = YES
END
}

say "Doxygen of ${#headers[@]} public headers"
undocumented=$(render NO YES | sed "s|^$root/||" | grep 'is not documented' |
  grep -vE '\((variable|enumvalue|macro definition)\)|operator|Member visit\(|\(\)( const)?( noexcept)?( override)?(=0)? \(function\)|&&\) noexcept' || true)
[[ -z $undocumented ]] || fail "these have no comment:"$'\n'"$undocumented"
warnings=$(render YES NO | sed "s|^$root/||")
[[ -z $warnings ]] || fail "Doxygen warns:"$'\n'"$warnings"
echo "docs: build-docs/html/index.html" >&2
