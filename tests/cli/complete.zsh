#!/usr/bin/env zsh
# What an interactive zsh offers to complete lines with: complete.zsh FOLDER LINE..., where FOLDER holds _podium. Prints a
# line of words for each. The shell runs in a pseudo-terminal; its compadd prints what it is given.
emulate -L zsh
zmodload zsh/zpty || exit 1
startup=$(mktemp)
trap 'rm -f $startup' EXIT
cat >$startup <<'END'
PROMPT='' RPROMPT=''
fpath=($PODIUM_FPATH $fpath)
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' completer _complete
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a hits
  builtin compadd -A hits "$@"
  (( $#hits )) && print && print -rl -- "<"${^hits}">"
}
zle -C complete-word complete-word _main_complete
offer() { zle complete-word; print "\n[END]" }
zle -N offer
bindkey '^I' offer
print "<READY>"
END
export PODIUM_FPATH=$1
zpty shell zsh -f -i
zpty -w shell "source $startup"
text=''
until [[ $text == *$'\n'"<READY>"* ]]; do
  zpty -r shell part || exit 1
  text+=$part
done
for line in "${@[2,-1]}"; do
  zpty -w -n shell $'\C-U'"$line"$'\t'
  text=''
  until [[ $text == *"[END]"* ]]; do
    zpty -r shell part || exit 1
    text+=$part
  done
  print -r -- ${${${(M)${(f)${text//$'\r'/}}:#<*>}#<}%>}
done
zpty -d shell
