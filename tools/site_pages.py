"""Pages of the documentation site that are made from the installed package: mkdocs calls this.

The reference of the command line is what its verbs declare, that of Python what the package exports.
"""

import inspect
import re
import subprocess
import sys

import regauge
from mkdocs.structure.files import File


def output(*arguments: str) -> str:
    command = [sys.executable, "-m", "regauge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def command_line() -> str:
    overview = output("--help")
    verbs = re.findall(r"^  (\w+) ", overview.split("Subcommands:")[1], re.MULTILINE)
    page = ["# The command line", f"```text\n{overview}```"]
    for verb in verbs:
        if verb not in ("lab", "barrier"):  # of the program regauge-lab
            page.append(f"## {verb}\n\n```text\n{output(verb, '--help')}```")
    return "\n\n".join(page)


def described(name: str, thing: object, level: int) -> list[str]:
    """A heading with the signature, and what the docstring says."""
    signature = str(inspect.signature(thing)).replace("'", "") if inspect.isfunction(thing) else ""
    text = inspect.cleandoc(thing.__doc__ or "")
    return [f"{'#' * level} {name}", f"```python\n{name}{signature}\n```" if signature else "", text]


def python() -> str:
    page = ["# The Python package", inspect.getdoc(regauge).split("\n\n    >>>")[0]]
    for name in regauge.__all__:
        thing = getattr(regauge, name)
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            continue
        page += described(name, thing, 2)
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for member, value in vars(thing).items():
                if not member.startswith("_"):
                    page += described(f"{name}.{member}", value, 3)
    page += described("testing.assert_same_function", regauge.testing.assert_same_function, 2)
    return "\n\n".join(part for part in page if part)


def on_files(files, config):
    for path, content in (("cli", command_line()), ("python", python())):
        files.append(File.generated(config, f"reference/{path}.md", content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links out of docs/, into the source tree, become text."""
    if "/" in page.file.src_uri:
        return markdown
    return re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", markdown)
