#!/usr/bin/env python3
"""Licence texts of every crate that is linked into prony, which those licences ask a binary to come with.

Reads `cargo metadata` for one target and prints a name, version and licence expression for each crate, then each
licence text once, below the names of the crates that it came with.
"""

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TEXTS = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def linked(metadata: dict) -> list[dict]:
    """Packages that `prony` links, without those that only build or test it."""
    by_id = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ids = [package["id"] for package in metadata["packages"] if package["name"] == "prony"]
    seen = set(open_ids)
    while open_ids:
        for dep in nodes[open_ids.pop()]["deps"]:
            if dep["pkg"] not in seen and any(kind["kind"] is None for kind in dep["dep_kinds"]):
                seen.add(dep["pkg"])
                open_ids.append(dep["pkg"])
    foreign = (by_id[found] for found in seen if by_id[found]["source"] is not None)
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def texts(package: dict) -> list[str]:
    """The licence files beside a package's manifest."""
    here = Path(package["manifest_path"]).parent
    files = sorted(file for file in here.iterdir() if file.is_file() and file.name.lower().startswith(TEXTS))
    return [file.read_text(errors="replace").strip() for file in files]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="x86_64-unknown-linux-gnu", help="platform (%(default)s)")
    asked = parser.parse_args()
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", asked.target]
    packages = linked(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    came_with = defaultdict(list)
    print("prony contains these crates, each under its own licence. The texts follow.\n")
    for package in packages:
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license']}")
        for text in texts(package):
            came_with[text].append(name)
    for text, names in came_with.items():
        print(f"\n{'-' * 80}\n{', '.join(names)}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
