"""The notebook runs from its first cell to its last."""

import pathlib

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
for needed in ("matplotlib", "ipykernel", "transformers", "mathformer"):
    pytest.importorskip(needed)

NOTEBOOK = pathlib.Path(__file__).parents[2] / "docs" / "notebooks" / "first_look.ipynb"


def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pictures = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) == 3
    nbformat.write(notebook, tmp_path / "executed.ipynb")
