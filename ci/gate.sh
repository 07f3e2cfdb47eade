#!/bin/sh
# Is HEAD worse than BASE? Both are started in turn within one experiment, loaded alike, and held against each other.
#
#   ci/gate.sh --base 'BASE COMMAND' --head 'HEAD COMMAND' [options]
#
# A command is a line of the shell that starts a server in the foreground; {{listen}}, {{address}} and {{port}} in it
# say where it has to listen. Options, with their defaults:
#
#   --path /             what is asked for
#   --ready PATH         path that answers below 400 when the server is ready: without it, a listening port is
#   --connections 16     at one time
#   --repeats 8          pairs of trials
#   --measure 2s         each of them
#   --threshold 5%       largest change for the worse that passes
#   --out DIR            keep the record and its page here
#
# prony must be on PATH, or PRONY name it. Standard output is Markdown, and so is $GITHUB_STEP_SUMMARY where that is
# set. Exit codes are those of `prony gate`: 0 passed or not decided, 1 worse, 2 and more for what could not run.
set -eu

prony="${PRONY:-prony}"
base='' head='' path='/' ready='' connections=16 repeats=8 measure=2s threshold=5% out=''

fail() {
    echo "ci/gate.sh: $1" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    [ $# -gt 1 ] || fail "$1 wants a value"
    case "$1" in
    --base) base="$2" ;;
    --head) head="$2" ;;
    --path) path="$2" ;;
    --ready) ready="$2" ;;
    --connections) connections="$2" ;;
    --repeats) repeats="$2" ;;
    --measure) measure="$2" ;;
    --threshold) threshold="$2" ;;
    --out) out="$2" ;;
    *) fail "there is no option $1" ;;
    esac
    shift 2
done
[ -n "$base" ] && [ -n "$head" ] || fail "give --base and --head"
case "$base$head$path$ready" in
*"'''"*) fail "three quotes in a row cannot be a part of a command or a path" ;;
esac

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/gate.toml" <<END
question = "Is the head worse than the base?"

[target.server]
listen = "127.0.0.1:0"
${ready:+ready = '''$ready'''}

[target.server.command]
base = ["sh", "-c", '''exec $base''']
head = ["sh", "-c", '''exec $head''']

[factor]
build = ["base", "head"]

[load]
url = '''http://server$path'''
connections = $connections

[design]
baseline = { build = "base" }
repeats = $repeats
measure = "$measure"
warmup = "500ms"
END
out="${out:-$scratch/record}"
code=0
"$prony" run "$scratch/gate.toml" --out "$out" >"$scratch/run.txt" || code=$?
case "$code" in
# A run whose figures cannot be used is no failure of the head: the gate says so.
0 | 1 | 3) ;;
*)
    cat "$scratch/run.txt" >&2
    exit "$code"
    ;;
esac
code=0
"$prony" gate "$out" --threshold "$threshold" >"$scratch/summary.md" || code=$?
cat "$scratch/summary.md"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$scratch/summary.md" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$code"
