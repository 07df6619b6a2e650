# Completion of nfsrdma-cli for bash.
#
# The candidates are taken from nfsrdma-cli --help and nfsrdma-cli COMMAND --help at run time, so a new command or option
# is completed without a change of this file. tests/completion.sh compares the two.

# Prints the names of all commands.
_nfsrdma_cli_commands() {
  "$1" --help 2> /dev/null | sed -n '/^commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p'
}

# Prints one line for each option of a command, or of the program if the second argument is empty. A row of --help such as
# "  -o, --options OPT=VAL,...    TEXT" gives the option's names, then its placeholder if it takes a value.
_nfsrdma_cli_options() {
  "$1" ${2:+"$2"} --help 2> /dev/null | awk '
    /^options:/ { inside = 1 }
    /^$/ { inside = 0 }
    inside && match($0, /^ +(-[^ ,], )?--[a-z0-9-]+( [A-Z][^a-z ]*)? /) {
      row = substr($0, 1, RLENGTH)
      sub(/, /, " ", row)
      print row
    }'
}

# Prints the names of the options that -o takes.
_nfsrdma_cli_connection_options() {
  "$1" "$2" --help 2> /dev/null | sed -n '/^options for the connection:/,$s/^  \([a-z][a-z0-9_]*\) .*/\1/p'
}

# Prints the placeholder of the value that an option (third argument) takes; fails if it takes none.
_nfsrdma_cli_value() {
  local -a row
  while read -ra row; do
    [[ ${row[-1]} != -* && " ${row[*]} " == *" $3 "* ]] && echo "${row[-1]}" && return 0
  done < <(_nfsrdma_cli_options "$1" "$2")
  return 1
}

# Prints the candidates for the word $4. $1: the program, $2: the command or nothing, $3: the word before.
_nfsrdma_cli_candidates() {
  local program=$1 command=$2 before=$3 word=$4 placeholder names
  # Without a command, ls stands for all: -o is the same for each.
  if [[ $before == -* ]] && placeholder=$(_nfsrdma_cli_value "$program" "${command:-ls}" "$before"); then
    case $placeholder in
      OPT=VAL*)
        names=$(_nfsrdma_cli_connection_options "$program" "${command:-ls}")
        local given=
        [[ $word != *,* ]] || given=${word%,*},
        compgen -P "$given" -S = -W "$names" -- "${word##*,}"
        ;;
      *FILE* | LOCAL*) compgen -f -- "$word" ;;
    esac
  elif [[ $word == -* ]]; then
    names=$(_nfsrdma_cli_options "$program" "$command" | tr ' ' '\n' | grep '^-')
    [[ -n $command ]] || names+=' --help --version'
    compgen -W "$names" -- "$word"
  elif [[ -z $command ]]; then
    compgen -W "$(_nfsrdma_cli_commands "$program")" -- "$word"
  elif "$program" "$command" --help 2> /dev/null | sed 1q | grep -qwE 'LOCAL|SOURCE|FILE|MOUNTPOINT'; then
    compgen -f -- "$word"
  fi
}

_nfsrdma_cli() {
  # Readline also splits words at '=' and ':', which options and targets contain.
  local line=${COMP_LINE:0:COMP_POINT} command='' skip=0 word
  local -a words
  read -ra words <<< "$line"
  [[ $line != *[[:space:]] ]] || words+=('')
  local program=${words[0]/#\~/$HOME} last=$((${#words[@]} - 1))
  for word in "${words[@]:1:last - 1}"; do
    case $word in
      -o | --options | --trace) skip=1 ;;
      -*) skip=0 ;;
      *)
        [[ $skip = 1 ]] || { command=$word; break; }
        skip=0
        ;;
    esac
  done
  word=${words[last]}
  mapfile -t COMPREPLY < <(_nfsrdma_cli_candidates "$program" "$command" "${words[last - 1]}" "$word")
  [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2> /dev/null
  # Readline replaces only what follows the last character at which it splits.
  local replaced=${word##*[=:]}
  COMPREPLY=("${COMPREPLY[@]#"${word%"$replaced"}"}")
}

complete -F _nfsrdma_cli nfsrdma-cli
