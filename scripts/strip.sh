#!/usr/bin/env bash
# Takes the debug information out of a binary and puts it beside it, as BINARY.debug. The binary names that file
# (.gnu_debuglink), so that gdb and the backtraces of a panic find the lines there.
#
# What serves and loads keeps the names of its functions: prony names them when it profiles its origin. Of all others a
# profile says where they start.
set -eu

binary=$1

if ! command -v objcopy >/dev/null; then
    echo "strip: objcopy is not installed, so $binary keeps its debug information" >&2
    echo "remedy: apt-get install binutils" >&2
    exit 0
fi
if readelf --wide --sections "$binary" | grep -q ' \.debug_info '; then
    objcopy --only-keep-debug "$binary" "$binary.debug"
    # A new file in its place: cargo keeps the whole one under another name of the same file.
    objcopy --strip-all --wildcard \
        --keep-symbol='*7traffic*' --keep-symbol='*5http1*' --keep-symbol='*6record*' --keep-symbol='*5linux*' \
        --add-gnu-debuglink="$binary.debug" "$binary" "$binary.stripped"
    mv "$binary.stripped" "$binary"
fi
du -h --apparent-size "$binary" "$binary.debug"
