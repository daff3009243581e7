"""Where the project is, for tests of what it keeps."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    """The folder of the project: what is published is held to what is computed here."""
    return pathlib.Path(os.environ.get("WEIR_ROOT", pathlib.Path(__file__).parents[2]))
