#!/bin/sh
# Stands in for `prony`: says with which arguments it was run, and listens where they say.
echo "$@" >&2
address=$3
exec python3 -m http.server "${address##*:}" --bind "${address%:*}"
