# Doxygen's INPUT_FILTER: the comments of a header, which are plain ones, become comments of Doxygen's.
#
#   - what stands before `#pragma once` describes the file;
#   - lines before a declaration describe it, unless a blank line follows them;
#   - what stands behind a declaration, with the lines that continue it, describes it.
function described(text) {
  gsub(/</, "\\<", text)
  gsub(/>/, "\\>", text)
  gsub(/#/, "\\#", text)
  return text
}
function flush_block(prefix, i) {
  for (i = 1; i <= lines; ++i) print block_indent[i] prefix (prefix == "//" ? block[i] : described(block[i]))
  lines = 0
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
  flush_block($0 ~ /^ *$/ ? "//" : "///")
  trailing = 0
  # Two blanks stand before a comment behind code, so that no address in a string is taken for one.
  at = index($0, "  // ")
  if (at > 0 && $0 !~ /^ *}  \/\/ namespace/) {
    trailing = at + 2
    print substr($0, 1, at - 1) "  ///<" described(substr($0, trailing + 2))
    next
  }
  print
}
