#!/usr/bin/env -S zsh -f
# Prints what TAB offers at the end of each command line, in an interactive zsh that completes with the functions of a
# directory: zsh_candidates.zsh DIRECTORY COMMAND-LINE... Each line of the output has the candidates for one command line.
#
# compadd receives all candidates, whatever function finds them. A wrapper of it writes those that match to a file.
zmodload zsh/zpty
export OFFERED=$(mktemp)
trap 'rm -f $OFFERED' EXIT
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell 'compadd() {
  local -a matching
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
    builtin compadd -A matching "$@"
    (( $#matching )) && print -rl -- $matching >> $OFFERED
  fi
  builtin compadd "$@"
}'
zpty -w shell 'offer() { _main_complete; compstate[insert]= compstate[list]=; print "<offered>" }'
zpty -w shell 'zle -C offer complete-word offer; bindkey "^I" offer; print "<re""ady>"'
zpty -r -m shell output '*<ready>*'
for line in "${@[2,-1]}"; do
  : > $OFFERED
  zpty -w -n shell $'\C-u'"$line"$'\t'
  zpty -r -m shell output '*<offered>*'
  print -r -- "${(@f)$(<$OFFERED)}"
done
zpty -d shell
