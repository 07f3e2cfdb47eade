"""The tables of a run: expected beside named, precision and recall by cause."""

from collections import Counter


def label(row):
    """What a row is counted as: the planted name wherever an accepted one was said."""
    return row["expected"][0] if row["right"] else row["named"]


def confusion(rows):
    """Expected causes with what was named instead; a full matrix of sixty causes would not be read."""
    counts = {}
    for row in rows:
        counts.setdefault(row["expected"][0], Counter())[label(row)] += 1
    lines = [f"{'expected':<32} {'cases':>5} {'right':>5}  named instead"]
    for cause in sorted(counts, key=lambda cause: (cause != "none", cause)):
        named = counts[cause]
        wrong = ", ".join(f"{name} x{n}" for name, n in named.most_common() if name != cause)
        lines.append(f"{cause:<32} {named.total():>5} {named[cause]:>5}  {wrong}")
    return "\n".join(lines)


def precision(rows):
    """Precision (of those named so, how many were) and recall (of those that were, how many were named)."""
    was, said, both = Counter(), Counter(), Counter()
    for row in rows:
        was[row["expected"][0]] += 1
        said[label(row)] += 1
        both[row["expected"][0]] += row["right"]
    lines = [f"\n{'cause':<32} {'precision':>9} {'recall':>7}"]
    for cause in sorted(set(was) | set(said), key=lambda cause: (cause != "none", cause)):
        share = [f"{both[cause] / n:.2f}" if n else "-" for n in (said[cause], was[cause])]
        lines.append(f"{cause:<32} {share[0]:>9} {share[1]:>7}")
    return "\n".join(lines) + "\n"
