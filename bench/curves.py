#!/usr/bin/env python3
"""Draws the loss on lines between models, from the records of `regauge barrier --json`, as one SVG.

    curves.py naive=naive.json weights=weights.json learned=learned.json -o curves.svg
"""

import argparse
import json
import pathlib

COLOURS = ["#8a8f98", "#c2571a", "#1f77b4", "#7a4fb5", "#1b7a4b", "#b3261e"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 150, 16, 40


def ticks(low, high):
    step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5) if (high - low) / s <= 7)
    first = int(low / step) + (low > 0)
    return [round(first * step + i * step, 6) for i in range(9) if first * step + i * step <= high]


def draw(curves):
    losses = [point["loss"] for points in curves.values() for point in points]
    low, high = min(losses), max(losses)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    x = lambda t: LEFT + t * (WIDTH - LEFT - RIGHT)
    y = lambda loss: TOP + (high - loss) / (high - low) * (HEIGHT - TOP - BOTTOM)
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="13">',
        "<style>text{fill:#1d2026}.grid{stroke:#dcd9d1}@media(prefers-color-scheme:dark){text{fill:#e8e6e1}.grid{stroke:#33373f}}</style>",
    ]
    for loss in ticks(low, high):
        svg.append(f'<line class="grid" x1="{x(0):.1f}" x2="{x(1):.1f}" y1="{y(loss):.1f}" y2="{y(loss):.1f}"/>')
        svg.append(f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:g}</text>')
    for t in (0, 0.25, 0.5, 0.75, 1):
        svg.append(f'<text x="{x(t):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{t:g}</text>')
    svg.append(f'<text x="{x(0.5):.1f}" y="{HEIGHT - 4}" text-anchor="middle">t, from A to B; loss in nats</text>')
    for i, (name, points) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x(p['t']):.1f},{y(p['loss']):.1f}" for p in points)
        svg.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        at = TOP + 14 + 20 * i
        svg.append(f'<line x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 36}" y1="{at - 4}" y2="{at - 4}" stroke="{colour}" stroke-width="2.2"/>')
        svg.append(f'<text x="{WIDTH - RIGHT + 42}" y="{at}">{name}</text>')
    return "\n".join([*svg, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curve", nargs="+", help="NAME=FILE")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    records = (curve.split("=", 1) for curve in options.curve)
    curves = {name: json.loads(pathlib.Path(file).read_text())["points"] for name, file in records}
    pathlib.Path(options.output).write_text(draw(curves))


if __name__ == "__main__":
    main()
