# Which headers of the standard library a file uses and does not include: awk -f scripts/includes.awk FILE...
# scripts/lint.sh runs it. Standard libraries differ in which of their headers include which others, so a file that leaves a
# header to chance compiles with one and not with the next.
#
# A header must include itself what it uses. A source file may leave it to its own header (a.cc and a_test.cc: a.h), and the
# commonest ones, which the first line of `common` names, to any header of ours.
function rule(header, names,   list, count, i) {
  count = split(names, list, " ")
  for (i = 1; i <= count; ++i) header_of[list[i]] = header
}
function finish(   name, header) {
  if (file == "") return
  for (name in used) {
    header = header_of[name]
    if (header in included) continue
    if (!is_header && header in common) continue
    if (header in missing) continue
    missing[header] = 1
    printf "%s:%d: std::%s needs #include <%s>\n", file, used[name], name, header
  }
  split("", used); split("", included); split("", missing)
}
# The own header of a source file, where it lies beside it.
function read_own(path,   line) {
  sub(/(_test|_fuzz)?\.cc$/, ".h", path)
  while ((getline line < path) > 0) note_include(line)
  close(path)
}
function note_include(line) {
  if (line ~ /^#include <[a-z_]+>/) {
    sub(/^#include </, "", line); sub(/>.*/, "", line)
    included[line] = 1
  }
}
BEGIN {
  split("vector string string_view cstdint cstddef utility span memory functional optional", list, " ")
  for (i in list) common[list[i]] = 1
  rule("algorithm", "min max clamp sort stable_sort nth_element copy copy_n fill fill_n any_of all_of none_of count count_if transform " \
    "reverse equal lower_bound upper_bound unique find find_if find_if_not max_element min_element minmax_element mismatch binary_search " \
    "rotate for_each remove_if swap_ranges lexicographical_compare partial_sort replace")
  rule("array", "array")
  rule("atomic", "atomic atomic_bool atomic_flag")
  rule("bit", "bit_cast countr_zero countl_zero popcount bit_ceil bit_floor bit_width has_single_bit")
  rule("charconv", "from_chars to_chars")
  rule("chrono", "chrono")
  rule("cmath", "sqrt exp expm1 log log1p log2 exp2 pow erf erfc acos cos sin tan tanh fma floor ceil round lround rint " \
    "nearbyint isnan isfinite isinf ldexp nextafter frexp signbit copysign fmod trunc hypot")
  rule("condition_variable", "condition_variable condition_variable_any")
  rule("cstddef", "size_t ptrdiff_t byte nullptr_t")
  rule("cstdint", "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t")
  rule("cstdlib", "getenv abort _Exit")
  rule("cstring", "memcpy memcmp memset memmove memchr strlen strerror strcmp")
  rule("deque", "deque")
  rule("exception", "exception exception_ptr current_exception rethrow_exception")
  rule("filesystem", "filesystem")
  rule("fstream", "ifstream ofstream")
  rule("functional", "function reference_wrapper")
  rule("initializer_list", "initializer_list")
  rule("iomanip", "setw setprecision setfill")
  rule("iostream", "cout cerr cin")
  rule("limits", "numeric_limits")
  rule("map", "map")
  rule("memory", "unique_ptr shared_ptr weak_ptr make_unique make_shared")
  rule("mutex", "mutex lock_guard scoped_lock unique_lock once_flag call_once")
  rule("numbers", "numbers")
  rule("numeric", "accumulate iota reduce inner_product")
  rule("optional", "optional nullopt")
  rule("set", "set")
  rule("span", "span")
  rule("sstream", "ostringstream istringstream stringstream")
  rule("stdexcept", "runtime_error logic_error invalid_argument out_of_range")
  rule("stop_token", "stop_token stop_source")
  rule("string", "string to_string getline stoi")
  rule("string_view", "string_view")
  rule("system_error", "error_code errc system_error")
  rule("thread", "thread jthread this_thread")
  rule("tuple", "tuple tie make_tuple")
  rule("type_traits", "decay_t is_same_v remove_cvref_t conditional_t enable_if_t is_integral_v is_floating_point_v invoke_result_t")
  rule("unordered_map", "unordered_map")
  rule("unordered_set", "unordered_set")
  rule("utility", "move pair swap forward exchange")
  rule("variant", "variant holds_alternative get_if")
  rule("vector", "vector")
}
FNR == 1 {
  finish()
  file = FILENAME
  is_header = file ~ /\.h$/
  if (!is_header) read_own(file)
}
/^#include/ { note_include($0); next }
{
  line = $0
  gsub(/"([^"\\]|\\.)*"/, "", line)
  sub(/\/\/.*/, "", line)
  while (match(line, /std::[a-z_A-Z0-9]+/)) {
    name = substr(line, RSTART + 5, RLENGTH - 5)
    line = substr(line, RSTART + RLENGTH)
    if (name in header_of && !(name in used)) used[name] = FNR
  }
}
END { finish() }
