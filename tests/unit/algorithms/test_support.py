"""The support table in the docs is what the algorithms say."""

from pathlib import Path

from tacenda.algorithms import support

PAGE = Path(__file__).parents[3] / "docs" / "support.md"


def test_docs_hold_the_current_table() -> None:
    assert support.markdown() in PAGE.read_text(encoding="utf-8")


def test_known_combinations() -> None:
    assert support.support("dvp", "logistic", "l2").private
    assert not support.support("dvp", "hinge", "l2").plain
    assert "twice differentiable" in (support.support("dvp", "smoothed-hinge", "l2").why or "")
    # Clipping does not bound a minimiser
    assert not support.support("pvp", "squared", "l2").private
    assert support.support("cdpadmm", "squared", "l1").clipped
    assert not support.support("admm", "logistic", "l2").private
    assert not support.support("radmm", "logistic", "l1").plain
    assert support.support("dvp", "logistic", "none").private
