#!/usr/bin/env python3
"""Makes the README's pictures from a record, with a headless Chromium:

  scripts/pictures.py RECORD [CAUSE]

docs/images/report.png is the first screen of the record's report.html; docs/images/flame.png is the flame graph of the
cell in which CAUSE (default: small_proxy_buffers) was named, below the cause. The record behind the checked-in
pictures is that of experiments/proxy-buffers.toml with the built-in origin alone (`backend = ["origin"]`), six repeats,
1.5 s measured after 0.5 s.

Surprise: no image tool is needed. A screenshot has few colours, so that a palette of 256 and zlib halve it.
"""

import collections
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Leaves of the page what the picture shows: the cause, its reason, and the first flame graph of its cell.
FLAME = """<script>addEventListener('load', () => {
  const cause = [...document.querySelectorAll('.cause')].find((c) => c.querySelector('h4 code').textContent === 'CAUSE');
  const cell = cause.closest('details');
  const title = document.createElement('h3');
  title.textContent = cell.querySelector('summary').firstChild.textContent.trim();
  const named = document.createElement('article');
  named.className = cause.className;
  named.append(...[...cause.children].filter((c) => ['H4', 'P'].includes(c.tagName)).slice(0, 3));
  const graph = cell.querySelector('figure.flames');
  graph.querySelector('.controls').hidden = true;
  document.body.replaceChildren(title, named, graph);
})</script></body>"""


def screenshot(page, target, size):
    browser = next((b for b in BROWSERS if shutil.which(b)), None)
    if browser is None:
        sys.exit("no Chromium to take the pictures with; remedy: apt-get install chromium")
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "page.html")
        file.write_text(page, encoding="utf-8")
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000",
             f"--window-size={size}", f"--screenshot={target}", f"file://{file}#theme=light"],
            check=True, capture_output=True, timeout=120)


def pixels(png):
    """Width, height and rows of RGB triples of an 8-bit PNG without interlacing (PNG 1.2, chapters 6 and 9)."""
    at, data = 8, b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    step = {2: 3, 6: 4}[colour]
    raw, rows, before = zlib.decompress(data), [], bytearray(width * step)
    for y in range(height):
        start = y * (width * step + 1)
        how, row = raw[start], bytearray(raw[start + 1:start + 1 + width * step])
        for i in range(len(row)):
            left = row[i - step] if i >= step else 0
            up, corner = before[i], before[i - step] if i >= step else 0
            if how == 1:
                row[i] = (row[i] + left) & 255
            elif how == 2:
                row[i] = (row[i] + up) & 255
            elif how == 3:
                row[i] = (row[i] + (left + up) // 2) & 255
            elif how == 4:
                guess = left + up - corner
                near = min((left, up, corner), key=lambda v: abs(guess - v))
                row[i] = (row[i] + near) & 255
        rows.append([tuple(row[i:i + 3]) for i in range(0, len(row), step)])
        before = row
    return width, height, rows


def optimized(png):
    """The same picture with a palette of its 256 most frequent colours, the empty rows at its foot left out."""
    width, height, rows = pixels(png)
    while height > 1 and len(set(rows[height - 1])) == 1 and rows[height - 1] == rows[height - 2]:
        height -= 1
    rows = rows[:height] + [rows[height - 1]] * 16
    counts = collections.Counter(p for row in rows for p in row)
    palette = [colour for colour, _ in counts.most_common(256)]
    index = {}
    for colour in counts:
        distance = lambda i: sum((a - b) ** 2 for a, b in zip(colour, palette[i]))
        index[colour] = min(range(len(palette)), key=distance)
    data = b"".join(b"\0" + bytes(index[p] for p in row) for row in rows)
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    return (png[:8] + chunk(b"IHDR", header) + chunk(b"PLTE", b"".join(bytes(c) for c in palette))
            + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    page = pathlib.Path(sys.argv[1], "report.html").read_text(encoding="utf-8")
    cause = sys.argv[2] if len(sys.argv) == 3 else "small_proxy_buffers"
    images = ROOT / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    flame = page.replace("</body>", FLAME.replace("CAUSE", cause))
    for name, html, size in (("report", page, "1280,800"), ("flame", flame, "1280,1080")):
        target = images / f"{name}.png"
        screenshot(html, target, size)
        target.write_bytes(optimized(target.read_bytes()))
        print(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
