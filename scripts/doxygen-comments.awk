# Doxygen's INPUT_FILTER: the comments of a header, which are plain ones, become comments of Doxygen's.
#
#   - what stands before `#pragma once` describes the file;
#   - lines before a declaration describe it, and the declarations right below it, up to a blank line or another comment;
#   - what stands behind a declaration, with the lines that continue it, describes it.
function described(text) {
  gsub(/</, "\\<", text)
  gsub(/>/, "\\>", text)
  gsub(/#/, "\\#", text)
  return text
}
function flush_block(is_described, i) {
  for (i = 1; i <= lines; ++i) print block_indent[i] (is_described ? "///" described(block[i]) : "//" block[i])
  kept = is_described ? lines : 0
  lines = 0
}
function print_kept(i) {
  for (i = 1; i <= kept; ++i) print block_indent[i] "///" described(block[i])
}
BEGIN { in_header = 1 }
in_header {
  if ($0 ~ /^\/\//) {
    if (!seen++) print "/// \\file"
    print "///" described(substr($0, 3))
    next
  }
  in_header = 0
}
/^ *\/\// {
  at = index($0, "//")
  if (at == trailing) {
    print substr($0, 1, at - 1) "///<" described(substr($0, at + 2))
    next
  }
  trailing = 0
  block_indent[++lines] = substr($0, 1, at - 1)
  block[lines] = substr($0, at + 2)
  next
}
{
  trailing = 0
  match($0, /^ */)
  indent = RLENGTH
  if (lines > 0) {
    flush_block($0 !~ /^ *$/)
    kept_indent = indent
    if ($0 ~ /^ *(struct|class|enum|namespace|template)/) kept = 0
  } else if ($0 ~ /^ *$/ || $0 ~ /^ *(public:|private:|protected:|struct|class|enum|template)/ || indent < kept_indent) {
    if (indent <= kept_indent) kept = 0
  } else if (kept > 0 && indent == kept_indent && !is_open && $0 !~ /^ *}/) {
    print_kept()
  }
  is_open = $0 !~ /[;}]( *\/\/.*)?$/
  # Two blanks stand before a comment behind code, so that no address in a string is taken for one.
  at = index($0, "  // ")
  if (at > 0 && $0 !~ /^ *}  \/\/ namespace/) {
    trailing = at + 2
    print substr($0, 1, at - 1) "  ///<" described(substr($0, trailing + 2))
    next
  }
  print
}
