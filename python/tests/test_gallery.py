"""Notebooks of the gallery run, and what they claim holds. They are kept without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

GALLERY = Path(__file__).resolve().parents[1] / "gallery"
NOTEBOOKS = sorted(GALLERY.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_claims_of_notebook_hold(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells), (
        "clear the outputs: jupyter nbconvert --clear-output --inplace"
    )
    assert "assert " in cells[-1].source, "the last cell checks what the notebook claims"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": GALLERY}}).execute()
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)
