# shellcheck shell=bash
# How the project's scripts become root, for those that need it: sourced, not run.
#
#   become_root SCRIPT ARGUMENT …   goes on as root by running the script again through sudo, with what this project
#                                   takes from the environment; returns 1 where there is no way to become root
#   give_back DIRECTORY …           what root has made there belongs to the user behind sudo, else to whom the checkout
#                                   belongs, so that his later builds can write it
become_root() {
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo > /dev/null || return 1
  # Without a terminal nobody can be asked for a password.
  if [ -t 0 ]; then
    echo "$(basename "$1"): parts of this need root; sudo may ask for your password" >&2
    sudo -v || return 1
  else
    sudo -n true 2> /dev/null || return 1
  fi
  # As arguments of env: not every sudoers file lets a caller hand variables through.
  local name kept=()
  for name in $(compgen -e | grep -E '^(NFSRDMA_|LAB_|SOAK_|CCACHE_|TMPDIR$|XDG_CACHE_HOME$|CTEST_|CMAKE_|http_proxy$|https_proxy$)'); do
    kept+=("$name=${!name}")
  done
  exec sudo env ${kept[@]+"${kept[@]}"} "$(command -v bash)" "$(realpath "$1")" "${@:2}"
}
give_back() {
  local owner=${SUDO_UID:-}:${SUDO_GID:-}
  [ "$(id -u)" = 0 ] || return 0
  [ "$owner" != : ] || owner=$(stat -c %u:%g "$(dirname "${BASH_SOURCE[0]}")")
  [ "${owner%%:*}" != 0 ] || return 0
  find "$@" -xdev -user 0 -exec chown -h "$owner" {} + 2> /dev/null || true
}
