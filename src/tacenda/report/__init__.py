"""The report: one self-contained HTML page, figures for papers and a model card, from a run folder
or a `RunResult`.

    build(run_folder)            run_folder/report.html: works offline, light and dark, on paper

    figures(run_folder, out_dir) the same figures as SVG and PDF (extra `plots`)
    evaluation_page(found, path)  what `tacenda evaluate` found, as one page
    private_evaluation_page(found, path)  what `tacenda.evaluate_privately` found
    model_card(result)           Markdown that states what one model promises
    Chart, Series, TextTable, Column, render_page, write_charts    figures and tables of your own

Nothing here reads records: only what a run has written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacenda._lazy import lazily

if TYPE_CHECKING:
    from tacenda.report.card import model_card
    from tacenda.report.charts import Chart, Column, Series, TextTable
    from tacenda.report.evaluation import evaluation_page
    from tacenda.report.html_page import build, render_page
    from tacenda.report.paper_figures import figures, write_charts
    from tacenda.report.private_evaluation import private_evaluation_page

_HOMES = {
    "Chart": "charts",
    "Column": "charts",
    "Series": "charts",
    "TextTable": "charts",
    "build": "html_page",
    "evaluation_page": "evaluation",
    "figures": "paper_figures",
    "model_card": "card",
    "private_evaluation_page": "private_evaluation",
    "render_page": "html_page",
    "write_charts": "paper_figures",
}

__all__ = [
    "Chart",
    "Column",
    "Series",
    "TextTable",
    "build",
    "evaluation_page",
    "figures",
    "model_card",
    "private_evaluation_page",
    "render_page",
    "write_charts",
]

__getattr__ = lazily(__name__, _HOMES)
