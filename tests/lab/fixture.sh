#!/usr/bin/env bash
# Brings the lab up for ctest: 0 when it is up, 77 (skipped) with what is missing when this machine cannot run it.
set -euo pipefail
lab=$(dirname "$0")/lab
if ! missing=$("$lab" check 2>&1); then
  printf '\n*** SKIPPED: the lab does not run here; its tests are skipped ***\n%s\n\n' "$missing" >&2
  exit 77
fi
"$lab" kernel
exec "$lab" up
