#!/usr/bin/env bash
# Holds the dependencies to deny.toml: licences, bans and sources always; advisories when their database
# can be had.
#
# The database lives on the network, so a machine without one cannot check it. That is said, with the
# reason, and is no failure: nothing in the tree is wrong. A database fetched earlier is used as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly fetch_limit_s=60

if ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: cargo-deny is not installed" >&2
    echo "remedy: scripts/setup.sh test" >&2
    exit 4
fi

cargo deny --locked --log-level error check --hide-inclusion-graph bans licenses sources

database=fresh
if ! reason=$(timeout "$fetch_limit_s" cargo deny --locked --log-level error fetch db 2>&1); then
    database=stored
fi
if [ "$database" = fresh ]; then
    cargo deny --locked --offline --log-level error check --hide-inclusion-graph advisories
elif [ -n "$(find "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs -name '*.md' -print -quit 2>/dev/null)" ]; then
    echo "deny: the advisory database could not be refreshed; the stored copy is used"
    cargo deny --locked --offline --log-level error check --hide-inclusion-graph advisories
else
    cause=$(printf '%s\n' "$reason" | grep -E '^(fatal|error):' | head -n 1 || true)
    echo "deny: advisories NOT checked, their database could not be fetched"
    echo "cause: ${cause:-no answer within ${fetch_limit_s} s}"
fi
