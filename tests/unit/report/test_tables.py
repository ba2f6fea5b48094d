"""The table of results shows every measure that has a place there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tacenda.evaluation import measures
from tacenda.evaluation.measure import IN_RESULTS
from tacenda.report import tables


@pytest.mark.parametrize("prefix", ["", "test_"])
def test_a_further_measure_is_shown_where_its_place_says_so(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ["accuracy", "roc_auc", "f1", "objective", "consensus"]
    folder: Any = SimpleNamespace(measures={*known, *(f"test_{m}" for m in known)})
    if not prefix:
        folder.measures -= {f"test_{m}" for m in known}
    assert len(tables.shown_metrics(folder)) == tables.RESULT_COLUMNS
    further = replace(measures.MEASURES["f1"], name="further", place=IN_RESULTS)
    monkeypatch.setitem(measures.MEASURES, "further", further)
    folder.measures.add(f"{prefix}further")
    shown = tables.shown_metrics(folder)
    assert f"{prefix}further" in shown and f"{prefix}f1" in shown
