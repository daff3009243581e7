"""Where the project is, for tests of what it keeps."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    """The folder of the project: what is published is held to what is computed here."""
    return pathlib.Path(os.environ.get("WEIR_ROOT", pathlib.Path(__file__).parents[2]))


@pytest.fixture(scope="session")
def program(root: pathlib.Path) -> pathlib.Path:
    """The program `weirlab`, as $WEIRLAB names it or as the project built it."""
    built = [os.environ.get("WEIRLAB"), *(root / "target" / profile / "weirlab" for profile in ("debug", "release"))]
    found = next((pathlib.Path(path) for path in built if path and pathlib.Path(path).is_file()), None)
    if found is None:
        pytest.skip("SKIPPED: no program weirlab: cargo build -p weirlab, or name it by $WEIRLAB")
    return found
