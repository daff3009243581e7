"""Files that are written whole or not at all: a full disk leaves what stood there before."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """A path to write to in the place of this one, which takes its name once it is whole.

    Raises OSError with the name of the file, if it cannot be written. What stood there is then as it was.
    """
    at = pathlib.Path(path)
    if at.exists() and not at.is_file():
        # /dev/stdout has no other name.
        yield at
        return
    part = at.with_name(f".part-{at.name}")
    try:
        yield part
        part.replace(at)
    except OSError as error:
        said = os.strerror(error.errno) if error.errno else str(error)
        raised = OSError(f"{at}: {said}: nothing was changed; mend it and call again")
        raised.errno = error.errno
        raise raised from error
    finally:
        part.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text whole or not at all."""
    with whole(path) as part:
        part.write_text(text)
