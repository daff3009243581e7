"""The tables of README.md against their sources: kept runs, and the notebook for lines whose rate is found."""

import json
import re

from weirlab.intervals import ratio

KEPT = "results/2026-11-23-vm5-virtual/"
FAR = "results/2026-11-28-vm12-lines-and-pages/pages-far/"
QUEUES = {
    ("fq_codel", "near", "configured"): ("queues-0.8", range(101, 111), "nginx-fq-codel"),
    ("CAKE", "near", "configured"): ("queues-0.8", range(101, 111), "nginx-cake"),
    ("CAKE", "50 ms away", "configured"): ("queues-50ms", range(101, 104), "nginx-cake"),
    ("CAKE, 100 Mbit/s", "near", "configured"): ("queues-100mbit", range(101, 110), "nginx-cake"),
    ("FIFO", "near", "configured"): ("queues-0.8", range(101, 111), "nginx-fifo"),
}
OF_QUEUES = ("response_time_ms/mean", "size_class_ms/p0_50", "size_class_ms/p995_100")
PAGES = {("nginx, fq_codel", "near"): "nginx-h2", ("H2O, fq_codel", "near"): "h2o-h2"}
OF_PAGES = ("pages/first_view_ms/mean", "pages/first_view_ms/p95", "pages/full_ms/mean", "pages/full_ms/p95")
FAR_PAGES = {("nginx, CAKE", "30 ms away"): "nginx-cake", ("H2O, CAKE", "30 ms away"): "h2o-cake"}
OF_FAR = ("view mean", "view p95", "whole mean", "whole p95")
DOWNLOAD = "results/2026-11-28-vm12-lines-and-pages/pages-download/over-weir-found.json"
PEERS = {
    "nginx-cake": "nginx, CAKE",
    "h2o-cake": "H2O, CAKE",
    "nginx-fq-codel": "nginx, fq_codel",
    "nginx-fifo": "nginx, FIFO",
}
OF_DOWNLOAD = ("view mean", "view p95", "whole mean", "whole p50", "whole p95")


def factor(pairs):
    of = ratio(pairs)
    return of.value, of.low, of.high


def factors(files, peer, own, paths):
    """The peer's figures over Weir's, pooled over the summaries."""
    runs = [{run["name"]: run for run in json.loads(file.read_text())["runs"]} for file in files]

    def at(of, path):
        for key in path.split("/"):
            of = of[key]
        return of

    return [factor([(at(of[peer], path), at(of[own], path)) for of in runs]) for path in paths]


def lines(notebook):
    """The rows of lines 30 ms away: the notebook has times over those of a Weir with the rate configured, by seed."""
    (row,) = (line for line in notebook.splitlines() if line.startswith("| row: 10 Mbit/s, FIFO of 100, 30 ms"))
    marks = ("seeds 1, 2, 3 |", "; nginx ", "behind cake-autorate ")
    texts = [re.split("[;|]", row.partition(mark)[2])[0] for mark in marks]
    own, nginx, autorate = ([float(number) for number in re.findall(r"\d+\.\d+", text)] for text in texts)
    assert (len(own), len(nginx), len(autorate)) == (3, 3, 2)
    yield ("FIFO of a router", "30 ms away", "configured"), [factor([(time, 1.0) for time in nginx])]
    yield ("FIFO of a router", "30 ms away", "found"), [factor(zip(nginx, own, strict=True))]
    yield ("CAKE with cake-autorate", "30 ms away", "found"), [factor(zip(autorate, own[:2], strict=True))]


def keys(row):
    """The first cells of a row that may name it. A row with figures from its second cell on is named by its first."""
    return [tuple(row[:cells]) for cells in ((1,) if re.match(r"\d+\.\d", row[1]) else (3, 2))]


def test_the_tables_are_those_of_their_sources(root):
    expected = dict(lines((root / "docs/notebook/line.md").read_text()))
    for row, (folder, traces, peer) in QUEUES.items():
        files = [root / KEPT / f"queues/{folder}-trace-{trace}/summary.json" for trace in traces]
        expected[row] = factors(files, peer, "weir-paced", OF_QUEUES)
    for row, peer in PAGES.items():
        files = [root / KEPT / f"pages/summary-seed-{seed}.json" for seed in range(1, 6)]
        expected[row] = factors(files, peer, "weir-h2-stage", OF_PAGES)
    for row, peer in FAR_PAGES.items():
        (weir,) = (of for of in json.loads((root / FAR / f"over-{peer}.json").read_text())["rows"] if of["run"] == "weir")
        of = {page["measure"]: page["factor"] for page in weir["pages"]}
        # Kept are Weir's times over the peer's.
        expected[row] = [[1 / of[measure][end] for end in ("value", "high", "low")] for measure in OF_FAR]
    for peer in json.loads((root / DOWNLOAD).read_text())["rows"]:
        if peer["run"] in PEERS:
            of = {page["measure"]: page["factor"] for page in peer["pages"]}
            expected[(PEERS[peer["run"]],)] = [[of[name][end] for end in ("value", "low", "high")] for name in OF_DOWNLOAD]
    cells = [line.strip("|").split("|") for line in (root / "README.md").read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in row] for row in cells if len(row) == 6]
    found = {key: row for row in rows for key in keys(row) if key in expected}
    assert found.keys() == expected.keys()
    for key, row in found.items():
        for cell, ends in zip(row[len(key) :], expected[key], strict=False):
            written = re.findall(r"\d+(?:\.\d+)?", cell)
            places = [len(number.partition(".")[2]) for number in written]
            assert len(written) in (1, 3), row
            assert written == [f"{end:.{of}f}" for end, of in zip(ends, places, strict=False)], (row, ends)
