"""`tacenda report`: one self-contained HTML page from a run folder, and figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacenda.cli import flags, show


def report(
    folder: Annotated[
        Path, typer.Argument(help="A run folder of `tacenda fit`, `compare` or `demo`.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where to write it; by default report.html in the folder."
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write every figure as SVG and PDF into this folder.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Write the report of a run: one HTML file that works offline, from the run folder only; no
    data is read. A member's run with an evaluation gets a second page beside it, evaluation.html.

    Example: tacenda report runs/demo --figures figures/
    """
    from tacenda.runtime.run_folder import RunFolder

    RunFolder.open(folder).manifest()
    try:
        from tacenda import report as pages

        page = Path(pages.build(folder, out))
        second = _evaluation(folder, page)
        drawn = [] if figures is None else [Path(p) for p in pages.figures(folder, figures)]
    except ModuleNotFoundError as missing:
        if missing.name != "matplotlib":
            raise
        raise ImportError("--figures needs matplotlib: pip install 'tacenda[plots]'.") from None
    if as_json:
        more = {} if second is None else {"evaluation": str(second)}
        show.as_json({"report": str(page), "figures": [str(p) for p in drawn], **more})
        return
    print(f"report  {page}")
    if second is not None:
        print(f"evaluation  {second}")
    for path in drawn:
        print(f"figure  {path}")


def _evaluation(folder: Path, page: Path) -> Path | None:
    """The page of a closing evaluation beside the report, where the run had one."""
    import json

    found = folder / "evaluation.json"
    if not found.is_file():
        return None
    from tacenda.evaluation.private import PrivateEvaluation

    read = PrivateEvaluation.from_plain(json.loads(found.read_text("utf-8")))
    return read.report(page.with_name("evaluation.html"))
