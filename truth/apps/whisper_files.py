"""Metrics of some halls with some valves each, as files of Whisper's below a directory: whisper_files.py DIRECTORY."""

import sys
import time
from pathlib import Path

import whisper

HALLS, VALVES = 60, 20
# A point a minute, for some hours.
STEP_S, POINTS = 60, 240


def write(path, points):
    path.parent.mkdir(parents=True, exist_ok=True)
    whisper.create(str(path), [(STEP_S, POINTS)])
    whisper.update_many(str(path), points)


def main():
    root = Path(sys.argv[1])
    now = int(time.time()) // STEP_S * STEP_S
    points = [(now - n * STEP_S, float(n % 17)) for n in range(POINTS - 1)]
    for hall in range(HALLS):
        for valve in range(VALVES):
            write(root / f"valves/hall{hall}/valve{valve}/pressure.wsp", points)
    # One of them measures its flow, too.
    write(root / "valves/hall7/valve7/flow.wsp", points)


main()
