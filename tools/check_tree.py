#!/usr/bin/env python3
"""The shape of the tree: a README in every module, small files, no drawer for everything.

    check_tree.py [ROOT]
    check_tree.py --self-test
"""

import pathlib
import sys
import tempfile

MAX_LINES = 500
SOURCES = {".h", ".cpp", ".py", ".cmake"}
DRAWERS = {"util", "utils", "helper", "helpers", "common", "misc"}
SKIPPED = {".git", "build", "install", "data", "fixtures", "__pycache__"}


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for module in sorted((root / "src").glob("*/")):
        if module.is_dir() and any(module.iterdir()) and not (module / "README.md").exists():
            found.append(f"src/{module.name}: has no README.md")
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if SKIPPED & set(inside.parts):
            continue
        words = set(path.stem.lower().split("_"))
        if DRAWERS & words and (path.is_dir() or path.suffix in SOURCES):
            found.append(f"{inside}: name it after what it holds, not {sorted(DRAWERS & words)[0]}")
        if path.is_file() and path.suffix in SOURCES:
            lines = len(path.read_text().splitlines())
            if lines > MAX_LINES:
                found.append(f"{inside}: {lines} lines, at most {MAX_LINES}; it holds two ideas")
    return found


def self_test() -> None:
    cases = [  # files with their number of lines, is it wrong?
        ({"src/io/README.md": 10, "src/io/a.cpp": 500}, False),
        ({"src/io/README.md": 10, "src/io/a.cpp": 501}, True),
        ({"src/io/a.cpp": 1}, True),
        ({"src/io/README.md": 1, "src/io/string_utils.cpp": 1}, True),
        ({"src/io/README.md": 1, "include/regauge/common/a.h": 1}, True),
        ({"build/dev/utils.cpp": 900}, False),
    ]
    for files, wrong in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, lines in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("x\n" * lines)
            if bool(problems(root)) != wrong:
                sys.exit(f"self-test: {files} is {'not ' if wrong else ''}refused")
    print(f"self-test: {len(cases)} cases as expected")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = problems(root)
    print("\n".join(found) if found else "the tree is in shape")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
