# shellcheck shell=bash
# The options of a benchmark, which its opening comment describes. A script sources this file when its variables have their
# defaults.
#
# usage STATUS: prints the opening comment.
usage() { sed -n '2,${/^#/!q;s/^#\( \|$\)//p}' "$0"; exit "$1"; }
# take_options 'NAME …' 'FLAG …' "$@": --NAME VALUE sets the variable NAME, and --FLAG sets FLAG to 1. The variable of
# --min-rate is min_rate.
take_options() {
  local names=" $1 " flags=" $2 " name
  shift 2
  while [ $# -gt 0 ]; do
    name=${1#--}
    [ "$name" != help ] || usage 0
    [[ $1 = --?* ]] || usage 2
    case $names in
      *" $name "*)
        printf -v "${name//-/_}" %s "${2:?}"
        shift ;;
      *)
        [[ $flags = *" $name "* ]] || usage 2
        printf -v "${name//-/_}" 1 ;;
    esac
    shift
  done
}
