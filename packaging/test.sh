#!/usr/bin/env bash
# Installs each of what packaging/build.sh left in dist/ into a root of its own, and uses it there.
#
# Wants root (namespaces, chroot, debootstrap) and the packages of `scripts/setup.sh dist`. Nothing is installed on this
# host: roots are temporary directories, servers listen on the loopback of a network namespace, and the image is loaded
# into a store that goes with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dist=$(realpath "${1:-dist}")
export load='load -n 2000 -c 4 --json http://127.0.0.1:8080/'

fail() {
    echo "dist: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail 'wants root, for namespaces and chroot'
# All in a mount namespace of its own: what is mounted goes with it.
[ "${2:-}" = unshared ] || exec unshare --mount packaging/test.sh "$dist" unshared
work=$(mktemp -d)
readonly podman=(podman --root "$work/store" --runroot "$work/store.run")

clean() {
    "${podman[@]}" rm --force --all >/dev/null 2>&1 || true
    rm -rf --one-file-system "$work"
}
trap clean EXIT

# A result as JSON on standard input: 2,000 requests were answered.
expect_load() {
    python3 -c '
import json, sys
requests = json.load(sys.stdin)["requests"]
assert requests["succeeded"] == 2000, requests' || fail "$1: the load was not what was asked for"
    echo "dist: $1: 2000 requests answered"
}

# A binary tells its dependencies, by the section of cargo-auditable.
expect_dependencies() {
    objcopy --dump-section .dep-v0="$work/dependencies" "$1" "$work/unused"
    python3 -c '
import json, sys, zlib
names = {p["name"] for p in json.loads(zlib.decompress(open(sys.argv[1], "rb").read()))["packages"]}
assert {"prony", "rustls", "aya"} <= names, names
print(f"dist: {sys.argv[2]} lists {len(names)} dependencies")' "$work/dependencies" "$2"
}

# Runs the commands $3 in a network of its own, beside an origin at 127.0.0.1:8080: the binary $2 in the root $1.
beside_origin() {
    root=$1 prony=$2 unshare --mount --net bash -euc '
        ip link set lo up
        mount --rbind /proc "$root/proc"
        mount --rbind /sys "$root/sys"
        chroot "$root" "$prony" origin --listen 127.0.0.1:8080 2>"$root/tmp/origin" &
        trap "kill %1" EXIT
        until grep -q http:// "$root/tmp/origin"; do kill -0 %1; sleep 0.1; done
        '"$3"
}

# The static binary in a root that holds nothing else.
static_binary() {
    local at=$work/static
    mkdir -p "$at/proc" "$at/sys" "$at/tmp" "$at/etc"
    tar -C "$at" --strip-components 1 -xzf "$dist"/prony-*-musl.tar.gz
    readelf --program-headers "$at/bin/prony" | grep -q INTERP && fail 'the static binary wants a loader'
    expect_dependencies "$at/bin/prony" 'the static binary'
    # Names: those of /etc/hosts, as there is no DNS here.
    echo '127.0.0.1 made-up.example' >"$at/etc/hosts"
    beside_origin "$at" /bin/prony '
        chroot "$root" "$prony" $load >"$root/tmp/load"
        chroot "$root" "$prony" ${load/127.0.0.1/made-up.example} >"$root/tmp/named"
        # 3: what limits it need not show in so short a load.
        chroot "$root" "$prony" diagnose --url http://127.0.0.1:8080/ -d 2s --json >"$root/tmp/diagnosis" || [ $? = 3 ]'
    expect_load 'static, in an empty root' <"$at/tmp/load"
    expect_load 'static, by a name of /etc/hosts' <"$at/tmp/named"
    grep -q '"recvfrom"' "$at/tmp/diagnosis" || fail 'static: diagnose counted no calls'
    echo 'dist: static: the origin is diagnosed, its calls are counted'
}

# The package in a Debian of its own: it installs, runs, completes, its pages can be read, and it goes without a trace.
deb() {
    local at=$work/debian
    debootstrap --variant=minbase --include=bash-completion,man-db "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$at" \
        ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/debootstrap.log" || fail "debootstrap: $(tail -n 3 "$work/debootstrap.log")"
    cp "$dist"/prony_*.deb "$at/tmp/prony.deb"
    chroot "$at" dpkg --install /tmp/prony.deb >/dev/null
    expect_dependencies "$at/usr/bin/prony" 'the package'
    chroot "$at" prony --version
    for page in prony prony-load; do
        chroot "$at" env MANWIDTH=80 LC_ALL=C.UTF-8 man "$page" | grep -q '^SYNOPSIS' || fail "deb: man $page does not render"
    done
    chroot "$at" bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader prony
        COMP_WORDS=(prony load --find-k); COMP_CWORD=2; _prony prony --find-k load; echo "${COMPREPLY[@]}"' \
        | grep -qx -e --find-knee || fail 'deb: bash does not complete'
    beside_origin "$at" prony 'chroot "$root" "$prony" $load >"$root/tmp/load"'
    expect_load 'deb, in a fresh Debian' <"$at/tmp/load"
    chroot "$at" dpkg --purge prony >/dev/null 2>&1
    [ -z "$(find "$at/usr" "$at/etc" -name '*prony*')" ] || fail 'deb: files are left after it is removed'
    echo 'dist: deb: installs, runs, completes, its pages render, and nothing is left after it'
}

# The image in containers that share a network: an origin, and a load of it.
image() {
    local image run=(run --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
    # The runtime crun refuses a host with both versions of control groups, so the second is hidden from it.
    umount /sys/fs/cgroup/unified 2>/dev/null || true
    image=$("${podman[@]}" load --quiet --input "$(echo "$dist"/prony-*.oci.tar)" | sed 's/^Loaded image: //')
    # Without a network of its own podman leaves the host as it is: a bridge would have it forward packets.
    "${podman[@]}" "${run[@]}" --rm --network none "$image" --version
    "${podman[@]}" "${run[@]}" --detach --name origin --network none "$image" origin --listen 127.0.0.1:8080 >/dev/null
    until "${podman[@]}" logs origin 2>&1 | grep -q http://; do
        [ "$("${podman[@]}" inspect --format '{{.State.Running}}' origin)" = true ] || fail 'image: the origin ended'
        sleep 0.1
    done
    "${podman[@]}" "${run[@]}" --rm --network container:origin "$image" $load >"$work/load"
    expect_load 'image, in a container' <"$work/load"
    # Without certificate authorities no public server could be verified; this one is none.
    "${podman[@]}" "${run[@]}" --rm --network container:origin "$image" load -n 1 https://127.0.0.1:8080/ >"$work/https" 2>&1 || true
    ! grep -qi 'certificate authorities' "$work/https" || fail "image: $(cat "$work/https")"
}

(cd "$dist" && sha256sum --check --quiet SHA256SUMS)
static_binary
image
deb
echo 'dist: everything installs and runs'
