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
    data is read.

    Example: tacenda report runs/demo --figures figures/
    """
    from tacenda.runtime.run_folder import RunFolder

    RunFolder.open(folder).manifest()
    try:
        from tacenda import report as pages

        page = Path(pages.build(folder, out))
        drawn = [] if figures is None else [Path(p) for p in pages.figures(folder, figures)]
    except ModuleNotFoundError as missing:
        extra = "plots" if missing.name == "matplotlib" else "report"
        raise ImportError(
            f"the report needs {missing.name}: pip install 'tacenda[{extra}]'."
        ) from None
    if as_json:
        show.as_json({"report": str(page), "figures": [str(p) for p in drawn]})
        return
    print(f"report  {page}")
    for path in drawn:
        print(f"figure  {path}")
