"""Pages of the documentation site that are made: mkdocs calls this.

The reference of the command line is what the installed package's verbs declare, that of Python what it
exports, that of C++ what Doxygen finds in include/; the report is made from the records of docs/results. A notebook is shown with the outputs that it holds.
"""

import base64
import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys

import regauge
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[1]


def output(*arguments: str) -> str:
    command = [sys.executable, "-m", "regauge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def command_line() -> str:
    overview = output("--help")
    verbs = re.findall(r"^  (\w+) ", overview.split("Verbs:")[1], re.MULTILINE)
    page = ["# The command line", f"```text\n{overview}```"]
    for verb in verbs:
        if verb not in ("lab", "barrier") or shutil.which("regauge-lab"):
            page.append(f"## {verb}\n\n```text\n{output(verb, '--help')}```")
    if shutil.which("regauge-lab"):
        for verb in re.findall(r"^  (\w+) ", output("lab", "--help").split("Verbs:")[1], re.MULTILINE):
            page.append(f"## lab {verb}\n\n```text\n{output('lab', verb, '--help')}```")
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


def cpp(config) -> list[File]:
    subprocess.run(["doxygen", "docs/Doxyfile"], cwd=ROOT, check=True)
    pages = ROOT / "build" / "cpp"
    return [
        File.generated(config, f"cpp/{path.relative_to(pages).as_posix()}", abs_src_path=str(path))
        for path in sorted(pages.rglob("*"))
        if path.is_file()
    ]


def results(config) -> list[File]:
    page = ROOT / "build" / "results.html"
    page.unlink(missing_ok=True)
    output("report", str(ROOT / "docs" / "results"), "-o", str(page))
    return [File.generated(config, "results/report.html", abs_src_path=str(page))]


def notebook(path: pathlib.Path, config) -> list[File]:
    """The page, and its pictures beside it."""
    made, page = [], []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        page.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}_{len(made)}.png"
                picture = base64.b64decode(data["image/png"])
                made.append(File.generated(config, f"notebooks/{name}", content=picture))
                page.append(f"![]({name})")
            elif "text/html" in data:
                page.append("".join(data["text/html"]))
    page.append(f"[The notebook]({path.name})")
    content = "\n\n".join(page)
    return [*made, File.generated(config, f"notebooks/{path.stem}.md", content=content)]


def on_files(files, config):
    for path, content in (("cli", command_line()), ("python", python())):
        files.append(File.generated(config, f"reference/{path}.md", content=content))
    made = cpp(config) + results(config)
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        made += notebook(path, config)
    for file in made:
        files.append(file)
    return files


def on_page_markdown(markdown, page, config, files):
    """Links out of docs/ lead into the C++ reference if they are of headers; else they become text."""
    if "/" in page.file.src_uri:
        return markdown
    markdown = re.sub(r"\]\(\.\./include/[^)]*\)", "](cpp/files.html)", markdown)
    return re.sub(r"\[([^\]]*)\]\(\.\./[^)]*\)", r"\1", markdown)
