"""python -m weirlab: response times of kept results, for scripts.

    python -m weirlab keep RUNS RESULT     writes RESULT/responses of an experiment's folder
    python -m weirlab check RESULT...      computes the published figures of kept results again

Exit status: 0 if all that is computed agrees to 0.1 %, 1 if not, 2 for a wrong command.
"""

from __future__ import annotations

import sys

from .judgement import check
from .recorded import keep


def main(arguments: list[str]) -> int:
    """Runs a command."""
    match arguments:
        case ["keep", folder, result]:
            for path in keep(folder, result):
                print(path)
            return 0
        case ["check", first, *others]:
            return max(_check(result) for result in (first, *others))
    print(__doc__, file=sys.stderr)
    return 2


def _check(result: str) -> int:
    checked = check(result)
    computed = [figure for figure in checked if figure.computed is not None]
    wrong = [figure for figure in computed if not figure.agrees]
    for figure in wrong:
        print(f"{result}: {figure.what}: published {figure.published}, computed {figure.computed}")
    left = len(checked) - len(computed)
    print(f"{result}: {len(computed)} figures computed, {len(wrong)} of them wrong, {left} not given by what is kept")
    return 1 if wrong or not computed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        sys.exit(f"weirlab: {error}")
