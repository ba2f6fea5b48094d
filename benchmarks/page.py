"""The figures of performance.md: what stands between its marks is written from the stored
points, and never by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cases import CASES
from benchmarks.figures import feature_points, node_points, rank_points
from benchmarks.peers.comparisons import PEERS
from benchmarks.scaling import GRAPHS, NODES
from benchmarks.store import Results
from tacenda.formats.files import write_bytes

UNBROKEN = "\u00a0"  # between a number and its unit, where no line breaks
PAGE = Path(__file__).parents[1] / "docs" / "results" / "measured" / "performance.md"


def write(results: Results, page: Path = PAGE) -> None:
    write_bytes(page, filled(page.read_text(encoding="utf-8"), results).encode())


def filled(text: str, results: Results) -> str:
    """The page with every block written anew."""
    for name, block in BLOCKS.items():
        begin, end = f"<!-- {name}: written by benchmarks.report -->", f"<!-- end of {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the page must have the marks {begin!r} and {end!r} once")
        new = f"{begin}\n\n{block(results)}\n\n{end}"
        text = pattern.sub(lambda _, new=new: new, text)
    return text


def markdown(head: list[str], rows: list[list[str]], last: str = "---:") -> str:
    """A table whose first column is text and whose others are numbers; `last` is the last one's
    rule."""
    rule = ["---", *["---:"] * (len(head) - 2), last]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])


def seconds(value: float) -> str:
    """Two or three digits, in a unit that suits."""
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s")):
        if value < limit:
            return f"{three(value * factor)}{UNBROKEN}{unit}"
    raise AssertionError


def three(value: float) -> str:
    """About three digits, and two of what is small."""
    if abs(value) < 0.1:
        return f"{value:.2g}"
    for limit, digits in ((10, 2), (100, 1)):
        if abs(value) < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def machine(results: Results) -> str:
    found = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    dates = " to ".join(dict.fromkeys([results.dates[0], results.dates[-1]]))
    (commit,) = results.programs.values()
    return (
        f"{found['processor']}, {found['cores']} cores, {found['memory_gb']:g} GiB of memory that "
        f"{'it reads' if found['cores'] == 1 else 'all cores together read'} at "
        f"{found['bandwidth_gb_s']:g} GB/s (measured); {found['system']}, Python "
        f"{found['python']}, {versions}. Commit {commit}, {dates}."
    )


def ratios(results: Results) -> str:
    rows = []
    for case in CASES:
        for row in results.points[f"ratios/{case}"]:
            rows.append([row["what"].strip(), f"{row['ratio']:.2f}", row["target"], row["detail"]])
    return markdown(["what / against what", "ratio", "wanted", "behind it"], rows, "---")


def peers(name: str) -> Callable[[Results], str]:
    """The tables of one program that we compare with."""

    def block(results: Results) -> str:
        parts = []
        for number in range(len(PEERS[name])):
            one = results.points[f"peers/{name}/{number}"]
            if "unavailable" in one:
                return f"Not measured on this machine: {one['unavailable']}"
            parts.append(comparison(one))
        return "\n\n".join(parts)

    return block


def comparison(one: dict[str, Any]) -> str:
    ours = one["sides"][0]
    per, quality = ours["per"], one["quality"]
    where = f"{one['nodes']} nodes with {one['records']} records each"
    if one["nodes"] == 1:
        where = f"{one['records']:,} records"
    rows = [
        [
            side["name"],
            seconds(side["seconds"]),
            three(ours["seconds"] / side["seconds"]) if side["program"] != ours["program"] else "",
            seconds(side["import_seconds"] + side["setup_seconds"]),
            seconds(side["first_run_seconds"]),
            seconds(side["later_run_seconds"]),
            f"{side['peak_mb']:.0f}{UNBROKEN}MB",
            f"{side[quality]:.5f}" if quality == "loss" else f"{side[quality]:.3f}",
        ]
        for side in one["sides"]
    ]
    head = ["", f"a {per}", "our time / its", "start", "first run", "later run", "memory", quality]
    other = next(s["program"] for s in one["sides"] if s["program"] != ours["program"])
    title = one["title"][0].upper() + one["title"][1:]
    return f"**{title}** ({other}): {where}, {one['features']} features.\n\n{markdown(head, rows)}"


def nodes(results: Results) -> str:
    rows = []
    empty = max(one["empty_bytes"] for graph in GRAPHS for one in node_points(results, graph))
    lines = [
        f"With everything loaded, and before any records were made, a process held "
        f"{empty / 1e6:.0f} MB."
    ]
    for graph in GRAPHS:
        found = node_points(results, graph)
        rows += [
            [
                f"{one['nodes']:,}, {graph}",
                seconds(one["problem_seconds"]),
                seconds(one["graph_seconds"]),
                seconds(one["before_seconds"]),
                seconds(one["round_seconds"]),
                f"{1e6 * one['round_seconds'] / one['nodes']:.2f}{UNBROKEN}us",
                f"{one['peak_bytes'] / 1e6:,.0f}{UNBROKEN}MB",
                f"{one['data_bytes'] / 1e6:,.1f}{UNBROKEN}MB",
            ]
            for one in found
        ]
        missing = [n for n in NODES if n not in [one["nodes"] for one in found]]
        for n in missing:
            why = results.points[f"nodes/{graph}/{n}"]["unfinished"]
            lines.append(f"{n:,} nodes, {graph}: {why}.")
        by_size = {one["nodes"]: one for one in found}
        if {10_000, 1_000_000} <= set(by_size):
            large, small = (by_size[n]["round_seconds"] / n for n in (1_000_000, 10_000))
            most = by_size[1_000_000]
            lines.append(
                f"A million nodes ({graph}): {large / small:.2f} times as long for a node and "
                f"round as 10,000 nodes; peak memory {most['peak_bytes'] / most['data_bytes']:.2f} "
                "times the data."
            )
    head = [
        "nodes x 10 records x 10 features",
        "problem",
        "graph",
        "before the first round",
        "a round",
        "per node",
        "peak memory",
        "data",
    ]
    return markdown(head, rows) + "\n\n" + "\n".join(f"- {line}" for line in lines)


def features(results: Results) -> str:
    rows = [
        [
            f"{one['features']:,}, {kind}",
            seconds(one["round_seconds"]),
            three(one["round_seconds"] / one["read_seconds"]),
            f"{one['peak_bytes'] / 1e6:,.0f}{UNBROKEN}MB",
            f"{one['data_bytes'] / 1e6:,.1f}{UNBROKEN}MB",
        ]
        for kind in ("float64", "float32")
        for one in feature_points(results, kind)
    ]
    head = ["features, numbers", "a round", "/ reading the data once", "peak memory", "data"]
    return markdown(head, rows)


def ranks(results: Results) -> str:
    found = rank_points(results)
    rows = [
        [
            str(one["ranks"]),
            seconds(one["all"]),
            f"{one['one'] / one['all']:.2f}",
            f"{one['one'] / one['all'] / min(one['ranks'], results.machine['cores']):.2f}",
            f"{one['ours'] / one['bare']:.2f}" if one["rows"] else "",
        ]
        for one in found
    ]
    head = [
        "ranks",
        "a round",
        "times as fast as one process of one thread",
        "of what the cores allow",
        "exchange / bare mpi4py",
    ]
    return f"A torus of {found[0]['nodes']:,} nodes:\n\n{markdown(head, rows)}"


BLOCKS: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "ratios": ratios,
    **{name: peers(name) for name in PEERS},
    "nodes": nodes,
    "features": features,
    "ranks": ranks,
}
