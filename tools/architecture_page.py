#!/usr/bin/env python3
"""Draws the modules as the includes of the sources connect them: docs/pictures/architecture.svg and the table in docs/architecture.md.

    architecture_page.py            writes both
    architecture_page.py --check    says whether they are up to date
"""

import pathlib
import re
import sys

from check_includes import INCLUDE, MAY_SEE, module_of_include

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE, PAGE = ROOT / "docs/pictures/architecture.svg", ROOT / "docs/architecture.md"
BEGIN, END = "<!-- modules: made by tools/architecture_page.py -->", "<!-- /modules -->"
PYTHON = "python"  # its bindings see what the command line sees
WIDTH, HEIGHT, GAP, MARGIN = 130, 40, 34, 16


def module_folders():
    for module in MAY_SEE:
        yield module, [ROOT / "include/regauge" / module, ROOT / "src" / module]
    yield PYTHON, [ROOT / "python/bindings"]


def sources(folders):
    return [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in (".h", ".cpp")]


def seen():
    """Module -> the modules whose headers its sources include."""
    result = {}
    for module, folders in module_folders():
        reached = set()
        for file in sources(folders):
            for line in file.read_text().splitlines():
                match = INCLUDE.match(line)
                target = module_of_include(file, match[1], ROOT) if match else None
                if match and module == PYTHON and (ROOT / "src/cli" / match[1]).exists():
                    target = "cli"  # its folder is an include folder of the bindings
                if target and target != module:
                    reached.add(target)
        result[module] = reached
    return result


def direct(edges):
    """Without the edges that follow from others."""

    def reach(module):
        return set().union(*({one} | reach(one) for one in edges[module])) if edges[module] else set()

    return {
        module: {one for one in targets if not any(one in reach(other) for other in targets if other != one)}
        for module, targets in edges.items()
    }


def depth_of(edges):
    depths = {}

    def depth(module):
        if module not in depths:
            depths[module] = 1 + max((depth(one) for one in edges[module]), default=-1)
        return depths[module]

    for module in edges:
        depth(module)
    return depths


def title(module):
    """What the first line of its README says it is."""
    folder = ROOT / "python" if module == PYTHON else ROOT / "src" / module
    return (folder / "README.md").read_text().splitlines()[0].partition(":")[2].strip()


def drawing(edges):
    depths = depth_of(edges)
    rows = [[m for m in edges if depths[m] == d] for d in range(max(depths.values()) + 1)]
    width = 2 * MARGIN + max(len(row) for row in rows) * (WIDTH + GAP) - GAP
    height = 2 * MARGIN + len(rows) * (HEIGHT + GAP) - GAP
    place = {}
    for d, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP) + GAP) / 2
        for i, module in enumerate(row):
            place[module] = (left + i * (WIDTH + GAP), height - MARGIN - HEIGHT - d * (HEIGHT + GAP))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif">',
        "<title>The modules; an arrow leads to what a module includes</title>",
        "<style>rect{fill:#f6f8fa;stroke:#57606a}text{fill:#1f2328}path{stroke:#57606a;fill:none}marker path{fill:#57606a}"
        "@media(prefers-color-scheme:dark){rect{fill:#161b22;stroke:#8b949e}text{fill:#e6edf3}path{stroke:#8b949e}marker path{fill:#8b949e}}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    for module, targets in direct(edges).items():
        for target in sorted(targets):
            (x, y), (to_x, to_y) = place[module], place[target]
            bend = GAP / 2
            lines.append(
                f'<path marker-end="url(#arrow)" d="M{x + WIDTH / 2:g} {y + HEIGHT:g}C{x + WIDTH / 2:g} {y + HEIGHT + bend:g} '
                f'{to_x + WIDTH / 2:g} {to_y - bend:g} {to_x + WIDTH / 2:g} {to_y:g}"/>'
            )
    for module, (x, y) in place.items():
        lines.append(f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>')
        lines.append(f'<text x="{x + WIDTH / 2:g}" y="{y + 25:g}" text-anchor="middle" font-size="16">{module}</text>')
    return "\n".join([*lines, "</svg>\n"])


def table(edges):
    lines = ["| module | what lives there | includes directly |", "|---|---|---|"]
    for module in edges:
        readme = "../python/README.md" if module == PYTHON else f"../src/{module}/README.md"
        lines.append(f"| [{module}]({readme}) | {title(module)} | {', '.join(m for m in edges if m in direct(edges)[module])} |")
    return "\n".join([BEGIN, *lines, END])


def main():
    edges = seen()
    text = PAGE.read_text()
    if BEGIN not in text:
        sys.exit(f"{PAGE} has no line {BEGIN}")
    page = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: table(edges), text, flags=re.S)
    picture = drawing(edges)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page)
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or page != text or picture != PICTURE.read_text():
        sys.exit("docs/architecture.md or its picture is out of date: run tools/architecture_page.py")


if __name__ == "__main__":
    main()
