#!/usr/bin/env python3
"""Includes point one way: a file of a module may include only that module and those it may see.

    check_includes.py [ROOT]     check include/, src/, tests/, bench/ and fuzz/ under ROOT
    check_includes.py --self-test
"""

import pathlib
import re
import sys
import tempfile

# What each module may see besides itself; CMakeLists.txt has the same order.
MAY_SEE = {
    "base": set(),
    "io": {"base"},
    "numerics": {"base"},
    "arch": {"base", "io", "numerics"},
    "symmetry": {"base", "io", "numerics", "arch"},
    "action": {"base", "io", "numerics", "arch", "symmetry"},
    "equivalence": {"base", "io", "numerics", "arch", "symmetry", "action"},
    "align": {"base", "io", "numerics", "arch", "symmetry", "action"},
    "lab": {"base", "io", "numerics", "arch", "symmetry", "action"},
    "connect": {"base", "io", "numerics", "arch", "symmetry", "action", "equivalence", "align", "lab"},
    "cli": {"base", "io", "numerics", "arch", "symmetry", "action", "equivalence", "align", "lab", "connect"},
}
ROOMS = ("include/regauge", "src", "tests", "bench")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
TORCH = re.compile(r"^(torch|ATen|c10)/")


def module_of_include(file: pathlib.Path, target: str, root: pathlib.Path) -> str | None:
    """The module that an include reaches, or None if it is not ours."""
    parts = pathlib.PurePosixPath(target).parts
    if parts[0] == "regauge":
        return parts[1] if len(parts) > 2 else None
    near = (file.parent / target).resolve()
    for room in ROOMS:
        try:
            inside = near.relative_to((root / room).resolve())
        except ValueError:
            continue
        if near.exists() and len(inside.parts) > 1:
            return inside.parts[0]
    if len(parts) > 1 and parts[0] in MAY_SEE:  # "io/checked.h" by an include folder
        return parts[0]
    return None


def problems(root: pathlib.Path) -> list[str]:
    found = []
    for room in ROOMS:
        for file in sorted((root / room).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".inc"):
                continue
            module = file.relative_to(root / room).parts[0]
            if module not in MAY_SEE:
                if room in ("include/regauge", "src"):
                    found.append(f"{file.relative_to(root)}: '{module}' is no module")
                continue
            allowed = MAY_SEE[module] | {module}
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                where = f"{file.relative_to(root)}:{number}"
                target = match.group(1)
                if TORCH.match(target) and (module != "lab" or room == "include/regauge"):
                    found.append(f"{where}: {target} belongs to the sources of lab alone")
                reached = module_of_include(file, target, root)
                if reached is not None and reached not in allowed:
                    found.append(
                        f"{where}: {module} must not see {reached} ({target}); it may see "
                        f"{', '.join(sorted(allowed))}"
                    )
    return found


def self_test() -> None:
    cases = [  # file, include, is it wrong?
        ("include/regauge/io/a.h", '#include "regauge/base/error.h"', False),
        ("include/regauge/base/a.h", '#include "regauge/io/dtype.h"', True),
        ("include/regauge/base/a.h", "#include <regauge/io/dtype.h>", True),
        ("src/arch/a.cpp", '#  include "regauge/symmetry/space.h"', True),
        ("src/arch/a.cpp", '// #include "regauge/symmetry/space.h"', False),
        ("src/io/a.cpp", '#include "../arch/secret.h"', True),
        ("src/arch/a.cpp", '#include "secret.h"', False),
        ("tests/io/a_test.cpp", '#include "regauge/cli/verb.h"', True),
        ("src/align/a.cpp", '#include "regauge/equivalence/x.h"', True),
        ("src/align/a.cpp", '#include "regauge/lab/x.h"', True),
        ("src/connect/a.cpp", '#include "regauge/lab/x.h"', False),
        ("src/cli/a.cpp", '#include "regauge/connect/x.h"', False),
        ("src/lab/a.cpp", "#include <torch/torch.h>", False),
        ("include/regauge/lab/a.h", "#include <torch/torch.h>", True),
        ("src/cli/a.cpp", "#include <torch/torch.h>", True),
        ("src/misc/a.cpp", "#include <vector>", True),
    ]
    for path, line, wrong in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/arch").mkdir(parents=True)
            (root / "src/arch/secret.h").touch()
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(line + "\n")
            if bool(problems(root)) != wrong:
                sys.exit(f"self-test: {path} with {line} is {'not ' if wrong else ''}refused")
    print(f"self-test: {len(cases)} cases as expected")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = problems(root)
    print("\n".join(found) if found else "includes point one way")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
