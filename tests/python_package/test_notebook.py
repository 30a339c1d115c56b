"""The notebook runs from its first cell to its last, and the tree holds what it shows.

REGAUGE_WRITE_NOTEBOOK=1 writes the outputs into the tree; look at the pictures then.
"""

import os
import pathlib

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
for needed in ("matplotlib", "ipykernel", "transformers", "mathformer"):
    pytest.importorskip(needed)

NOTEBOOK = pathlib.Path(__file__).parents[2] / "docs" / "notebooks" / "first_look.ipynb"


def shown(notebook):
    """The kinds of output, cell by cell."""
    return [
        [sorted(output.get("data", {output.get("name"): None})) for output in cell.get("outputs", [])]
        for cell in notebook.cells
    ]


def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = shown(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=900, resources=resources, record_timing=False)
    client.execute()
    for cell in notebook.cells:  # without the progress of loading
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    if os.environ.get("REGAUGE_WRITE_NOTEBOOK"):
        notebook.metadata.pop("language_info", None)
        nbformat.write(notebook, NOTEBOOK)
    else:
        assert shown(notebook) == stored, "run this test with REGAUGE_WRITE_NOTEBOOK=1"
    assert sum("image/png" in kinds for cell in shown(notebook) for kinds in cell) == 3
