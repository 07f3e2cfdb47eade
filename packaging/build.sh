#!/usr/bin/env bash
# Builds what is handed out into dist/, for the machine's own architecture:
#
#   prony_VERSION-1_ARCH.deb           dynamic binary, completions, manual pages, documents
#   prony-VERSION-TARGET.tar.gz        static binary for any Linux, with the same beside it
#   prony-VERSION-ARCH.oci.tar         image of the static binary alone
#   SHA256SUMS
#
# Both binaries hold the list of their dependencies (cargo-auditable), which stays with them when they are copied.
# The same source gives the same bytes: no path of this machine is in them, and where there must be a date it is the
# last commit's (SOURCE_DATE_EPOCH).
#
# Surprise: the package is dynamic although a static binary exists. A kernel-bypass library (Onload, libvma) is
# preloaded, which a static program cannot be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly root=$PWD
dist=$(realpath "${1:-dist}")
readonly build=${CARGO_TARGET_DIR:-$root/target}/dist
readonly machine=$(uname -m)
readonly gnu=$machine-unknown-linux-gnu musl=$machine-unknown-linux-musl
readonly version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
umask 022

# Archives without what differs from one time to the next.
readonly plain=(--sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Paths of this machine stand in the messages of a panic and in the debug information, whose checksum the binary holds.
compile() {
    local target=$1 registry=${CARGO_HOME:-$HOME/.cargo} sysroot
    sysroot=$(rustc --print sysroot)
    export RUSTFLAGS="--remap-path-prefix=$build/$target=/build --remap-path-prefix=$root=/prony \
--remap-path-prefix=$registry=/cargo --remap-path-prefix=$sysroot=/rust \
-C link-arg=-Wl,-z,pack-relative-relocs"
    export CFLAGS="-ffile-prefix-map=$build/$target=/build -ffile-prefix-map=$registry=/cargo"
    export CC_x86_64_unknown_linux_musl=musl-gcc CC_aarch64_unknown_linux_musl=musl-gcc
    # A directory of its own each: the last step, which optimises across all crates, then runs beside the other's.
    CARGO_TARGET_DIR=$build/$target cargo auditable build --release --locked --bin prony --target "$target"
    cp "$build/$target/$target/release/prony" "$build/prony-$target"
    scripts/strip.sh "$build/prony-$target"
}

# Completions, manual pages and documents, below PREFIX. The native binary writes them: it is the same for both.
lay_out() {
    local to=$1 binary=$build/prony-$gnu doc=$1/share/doc/prony
    install -d "$to/share/bash-completion/completions" "$to/share/zsh/vendor-completions" \
        "$to/share/fish/vendor_completions.d" "$doc"
    "$binary" completions bash >"$to/share/bash-completion/completions/prony"
    "$binary" completions zsh >"$to/share/zsh/vendor-completions/_prony"
    "$binary" completions fish >"$to/share/fish/vendor_completions.d/prony.fish"
    "$binary" man --all --out "$to/share/man/man1"
    gzip -9n "$to"/share/man/man1/*.1
    install -m 644 README.md docs/*.md "$doc"
    gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
    packaging/notices.py --target "$2" | gzip -9n >"$doc/crates.gz"
}

deb() {
    local to=$work/deb doc=$work/deb/usr/share/doc/prony arch maintainer
    arch=$(dpkg --print-architecture)
    maintainer=$(git log -1 --format='%an <%ae>')
    install -D -m 755 "$build/prony-$gnu" "$to/usr/bin/prony"
    lay_out "$to/usr" "$gnu"
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
        printf 'Upstream-Name: prony\n\nFiles: *\nCopyright: 2026 The prony authors\nLicense: Apache-2.0 or Expat\n'
        printf 'Comment: Licences of the crates that are linked in stand in crates.gz beside this file.\n\n'
        printf 'License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n\n'
        printf 'License: Expat\n'
        sed -n '/^Permission/,$p' LICENSE-MIT | sed 's/^$/./; s/^/ /'
    } >"$doc/copyright"
    {
        printf 'prony (%s-1) unstable; urgency=medium\n\n  * Package of version %s; changelog.gz says what is new.\n\n' \
            "$version" "$version"
        printf ' -- %s  %s\n' "$maintainer" "$(date -Rd "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$doc/changelog.Debian.gz"
    # dpkg-shlibdeps wants the layout of a source package around it. It does not know that packed relocations need 2.36.
    mkdir -p "$work/source/debian" "$to/DEBIAN"
    printf 'Source: prony\n\nPackage: prony\nArchitecture: any\n' >"$work/source/debian/control"
    local depends
    depends=$(cd "$work/source" && dpkg-shlibdeps -O "$to/usr/bin/prony" | sed -n 's/^shlibs:Depends=//p')
    cat >"$to/DEBIAN/control" <<CONTROL
Package: prony
Version: $version-1
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$to/usr" | cut -f1)
Depends: $depends, libc6 (>= 2.36)
Recommends: ca-certificates, iproute2, openssh-client
Section: net
Priority: optional
Description: dynamometer for web servers and reverse proxies
 prony puts a measured load on a web server, watches both ends while it does,
 and says what limits them, by which numbers, and why. It loads over HTTP/1.1,
 HTTP/2 and TLS in closed and open loops, runs experiments with confidence
 intervals, diagnoses running servers, and reads other tools' results.
CONTROL
    (cd "$to" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$to" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --build "$to" "$dist/prony_$version-1_$arch.deb" >/dev/null
}

tarball() {
    local name=prony-$version-$musl
    install -D -m 755 "$build/prony-$musl" "$work/$name/bin/prony"
    lay_out "$work/$name" "$musl"
    install -m 644 LICENSE-APACHE LICENSE-MIT "$work/$name/share/doc/prony"
    tar -C "$work" "${plain[@]}" -c "$name" |
        gzip -9n >"$dist/$name.tar.gz"
}

image() {
    local context=$work/image
    install -D -m 755 "$build/prony-$musl" "$context/root/usr/bin/prony"
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$context/root/etc/ssl/certs/ca-certificates.crt"
    install -D -m 644 "$work/prony-$version-$musl/share/doc/prony"/{LICENSE-*,crates.gz} -t "$context/root/usr/share/doc/prony"
    install -d -m 1777 "$context/root/tmp"
    # A store of its own: what is built stays in no store of this host.
    local podman=(podman --root "$work/store" --runroot "$work/store.run")
    "${podman[@]}" build --quiet --timestamp "$SOURCE_DATE_EPOCH" --build-arg VERSION="$version" \
        --file packaging/Containerfile --tag "localhost/prony:$version" "$context" >/dev/null
    "${podman[@]}" save --quiet --format oci-archive --output "$work/image.tar" "localhost/prony:$version"
    # Packed again: podman writes the time of now into the archive's heads.
    mkdir "$work/archive"
    tar -C "$work/archive" -xf "$work/image.tar"
    tar -C "$work/archive" "${plain[@]}" -cf "$dist/prony-$version-$machine.oci.tar" .
}

mkdir -p "$dist"
(compile "$gnu") &
readonly dynamic=$!
(compile "$musl") || { kill "$dynamic"; exit 1; }
wait "$dynamic"
deb
tarball
image
(cd "$dist" && sha256sum prony[_-]"$version"* >SHA256SUMS && cat SHA256SUMS)
