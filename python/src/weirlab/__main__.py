"""python -m weirlab: what runs came to, judged, and results as they are kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import chapters, grids, items, repeats
from ._files import write_text
from .experiments import RunError
from .folders import experiments_in
from .judgement import check, claims_json, kept_claims
from .recorded import keep
from .sweeps import SweepError


def main(arguments: Sequence[str]) -> int:
    """Runs a command. Exit status: 0, or 1 if something does not agree or is not there, 2 for a wrong command or sweep."""
    try:
        args = _parser().parse_args(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    try:
        status: int = args.command(args)
    except (OSError, ValueError, RunError, SweepError) as error:
        print(f"weirlab: {error}", file=sys.stderr)
        return 2 if isinstance(error, grids.WrongFile) else 1
    except KeyboardInterrupt:
        print("weirlab: interrupted: what is finished is kept, and the same command goes on", file=sys.stderr)
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m weirlab", description=__doc__.split(": ", 1)[1])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="claims with verdicts, and runs over another, of experiments' folders")
    report.set_defaults(command=_report)
    report.add_argument("folders", nargs="+", metavar="DIR", help="of an experiment, of experiments, of runs, or a kept result")
    what = report.add_mutually_exclusive_group()
    what.add_argument("--over", metavar="RUN", help="each run's time over this one's, paired by seed, its losses first")
    what.add_argument("--claims", metavar="FILE.json", help="write what became of each claim, as results keep it (claims.json)")
    report.add_argument("--line", action="store_true", help="with --over: what was used of the line, and when its rate was found")
    report.add_argument("--json", action="store_true", help="with --over: one JSON object (over-RUN.json)")
    report.add_argument("--md", metavar="FILE.md", help="write it as Markdown")
    sweep = commands.add_parser("sweep", help="simulate a grid from a file; the same again goes on")
    sweep.set_defaults(command=_sweep)
    sweep.add_argument("file", metavar="FILE.toml")
    sweep.add_argument("--out", required=True, metavar="DIR", help="folder for the results")
    sweep.add_argument("--trace", metavar="FILE", help="read this trace wherever the experiment names one")
    sweep.add_argument("--replications", type=int, metavar="N", help="seeds of each cell, instead of as many as the file says")
    sweep.add_argument("--only", action="append", default=[], metavar="AXIS=VALUE", help="only these cells; claims: its claims'")
    sweep.add_argument("--workers", type=int, metavar="N", help="runs at once (one per core)")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    page = commands.add_parser("items", help="write the tables of all items of the papers, in the project that this folder is")
    page.set_defaults(command=_items)
    kept = commands.add_parser("keep", help="write the response times of an experiment into a result: RESULT/responses")
    kept.set_defaults(command=_keep)
    kept.add_argument("folder", metavar="RUNS")
    kept.add_argument("result", metavar="RESULT")
    checked = commands.add_parser("check", help="compute what kept results publish again, to 0.1 %%")
    checked.set_defaults(command=_check)
    checked.add_argument("results", nargs="+", metavar="RESULT")
    return parser


def _report(args: argparse.Namespace) -> int:
    found = experiments_in(*args.folders)
    if not args.over:
        if args.json or args.line:
            raise ValueError("--json and --line go with --over")
        return _chapters(args, [chapters.chapter(of) for of in found])
    of = repeats.factors(found, args.over, with_line=args.line)
    text = repeats.markdown(of, f"Weir: every run over {args.over}")
    if args.md:
        write_text(args.md, text)
    if args.json or not args.md:
        sys.stdout.write(repeats.to_json(of) if args.json else text)
    return 0


def _chapters(args: argparse.Namespace, made: list[chapters.Chapter]) -> int:
    if not any(point.mismatch is None for of in made for point in of.points):
        raise ValueError(f"{', '.join(args.folders)}: nothing is left to report")
    if args.claims:
        kept = [row for of in made for row in kept_claims(of.experiment.name, of.findings)]
        if not kept:
            raise ValueError(f"--claims: {', '.join(args.folders)}: no experiment.toml with claims is here")
        write_text(args.claims, claims_json(kept))
    if args.md or not args.claims:
        only = made[0].experiment.name if len(made) == 1 else None
        title = f"Weir: {only}" if only else "Weir: the papers' figures, measured"
        text = chapters.markdown(title, made)
        if args.md:
            write_text(args.md, text)
        else:
            sys.stdout.write(text)
    return 0


def _sweep(args: argparse.Namespace) -> int:
    plan = grids.read(args.file, args.replications, dict(of.partition("=")[::2] for of in args.only))
    shown = _show if sys.stderr.isatty() else None
    results = grids.conduct(plan, args.out, trace=args.trace, workers=args.workers, engine=args.engine, progress=shown)
    grids.write(results, args.out)
    sys.stdout.write(grids.table(results))
    return 0


def _show(done: int, of: int) -> None:
    print(f"\r{done} of {of} runs", end="" if done < of else "\n", file=sys.stderr, flush=True)


def _items(args: argparse.Namespace) -> int:
    for path, text in items.read(".").pages(".").items():
        write_text(path, text)
    return 0


def _keep(args: argparse.Namespace) -> int:
    for path in keep(args.folder, args.result):
        print(path)
    return 0


def _check(args: argparse.Namespace) -> int:
    return max(map(_check_one, args.results))


def _check_one(result: str) -> int:
    checked = check(result)
    computed = [figure for figure in checked if figure.computed is not None]
    wrong = [figure for figure in computed if not figure.agrees]
    for figure in wrong:
        print(f"{result}: {figure.what}: published {figure.published}, computed {figure.computed}")
    left = len(checked) - len(computed)
    print(f"{result}: {len(computed)} figures computed, {len(wrong)} of them wrong, {left} not given by what is kept")
    return 1 if wrong or not computed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
