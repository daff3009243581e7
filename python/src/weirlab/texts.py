"""Figures and tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .intervals import Estimate


def figure(value: float) -> str:
    """Three significant digits, or all before the point."""
    size = abs(value)
    return f"{value:.{3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0}f}"


def short(value: float) -> str:
    """The same, whole numbers without a point and very small or large ones with their power of ten."""
    size = abs(value)
    if size >= 1e7 or 0 < size < 0.001:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(power)}"
    return f"{value:.0f}" if float(value).is_integer() else figure(value)


def plus_minus(of: Estimate | None) -> str:
    """A mean and half of its interval."""
    if of is None:
        return "-"
    return figure(of.value) + (" (1 seed)" if of.high is None else f" ± {figure(of.high - of.value)}")


def with_ends(of: Estimate | None) -> str:
    """A mean and the ends of its interval."""
    if of is None:
        return "-"
    return figure(of.value) + (" (1 seed)" if of.low is None or of.high is None else f" {figure(of.low)}-{figure(of.high)}")


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [columns, *rows]
    text = [f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in line)} |\n" for line in lines]
    return text[0] + f"|{'---|' * len(columns)}\n" + "".join(text[1:])


def lost(connections: int, requests: int, completed_ms: float) -> str:
    """A sentence for what a server's kernel gave up: its clients wait until the run ends, and make the mean of all requests."""
    share = short(100 * connections / max(requests, 1))
    return (
        f"the server's kernel gave up {connections} connections ({share} % of the requests), whose clients waited until the run "
        f"ended; the mean of what completed is {short(completed_ms)} ms"
    )
