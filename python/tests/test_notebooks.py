"""The notebooks, run from top to bottom."""

import base64
import pathlib

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
CELL_S = 300
# Width and height of a picture, in the header of a PNG.
PIXELS_MIN = 300


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["figure", "log", "policy"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code), "kept without output"
    NotebookClient(notebook, timeout=CELL_S, kernel_name="python3", resources={"metadata": {"path": path.parent}}).execute()
    data = [output.get("data", {}) for cell in code for output in cell.outputs]
    pictures = [base64.b64decode(of["image/png"]) for of in data if "image/png" in of]
    assert len(pictures) == 1
    width, height = (int.from_bytes(pictures[0][at : at + 4], "big") for at in (16, 20))
    assert width >= PIXELS_MIN and height >= PIXELS_MIN
    (tmp_path / f"{path.stem}.png").write_bytes(pictures[0])
    said = [output for cell in code for output in cell.outputs if output.output_type == "stream"]
    assert [of.text for of in said if of.name == "stderr"] == []
