"""Chains of every registered statistic: an example of each, and the pairs of records that move it
most. A statistic that is registered and has no example here fails the test, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tacenda as tc
from chain_cases import Case
from chain_scenes import BOTH, PERSON, RECORD, ROWS, TRAVELLER, Family, Pair, Scene, slopes
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.newton import HazardNewton
from tacenda.algorithms.statistic import StatisticRelease
from tacenda.inference import GradientMoments, LossScales
from tacenda.questions.counts import ClassCounts, CountSums, QuantileSums, ValueSums
from tacenda.questions.hazards import HazardMoments
from tacenda.questions.outcomes import OutcomeCounts
from tacenda.questions.statistics import STATISTICS, Count, Statistic
from tacenda.questions.tables import ColumnCells, Tables, TableSums
from tacenda.selection import CandidateScores

X = np.array([0.6, 0.0])


def _two_classes(model: tuple[float, float]) -> Family:
    """One record under a model, with the label that it predicts and with the other."""
    family = slopes("logistic", 1.0)
    pair = Pair("both labels", X, 1, X, -1)
    return Family(family.settings, (pair,), family.filler, np.array(model))


def _numbers(*pairs: Pair, start: np.ndarray | None = None) -> Family:
    settings = {"loss": "squared", "clip_norm": 1.0, "data_norm": 1.0, "strength": 0.01}
    width = len(pairs[0].x)
    return Family(settings, pairs, (np.zeros(width), 0.0), start, None)


FAR = _numbers(Pair("both labels", X, 1.0, X, -1.0), Pair("both rows", X, 1.0, -X, 1.0))
OUTCOMES = Family(
    {"loss": "multinomial", "data_norm": 1.0, "strength": 0.01, "regulariser": "l2"},
    (Pair("lowest and highest", X, 0, X, 2),),
    (np.zeros(2), 0),
    classes=(0, 1, 2),
)
CELLS = (ColumnCells(0, (0.5,), True, 1.0), ColumnCells(0, (), False, 2.0))
EXAMPLES: dict[str, Callable[[], tuple[Statistic, Family]]] = {
    "count": lambda: (Count(), _two_classes((0.0, 0.0))),
    "class-counts": lambda: (ClassCounts(2, probabilities=False), _two_classes((3.0, 0.0))),
    "value-sums": lambda: (ValueSums(-1.0, 1.0), FAR),
    "count-sums": lambda: (CountSums(12.0), FAR),
    "quantile-sums": lambda: (QuantileSums(-1.0, 1.0, 0.9), FAR),
    "outcome-counts": lambda: (OutcomeCounts("ordinal", 3), OUTCOMES),
    "table-sums": lambda: (
        TableSums(1, CELLS),
        _numbers(Pair("both ends", np.array([0.0, 0.6, 0.6]), 0.0, np.zeros(3), 0.0)),
    ),
    "tables": lambda: (
        Tables(((1, CELLS, 0.7), (1, CELLS[:1], 0.3))),
        _numbers(Pair("both ends", np.array([0.0, 0.4, 0.4, 0.0, 0.4]), 0.0, np.zeros(5), 0.0)),
    ),
    "candidate-scores": lambda: (
        CandidateScores(((1.0, 0.0), (2.0, 0.0)), "accuracy"),
        _two_classes((0.0, 0.0)),
    ),
    "loss scales": lambda: (
        LossScales("squared"),
        _numbers(Pair("a large and a small residual", X, 1.0, X, 0.0)),
    ),
    "gradient moments": lambda: (GradientMoments(2, "logistic"), _two_classes((3.0, 0.0))),
    "hazard-moments": lambda: (
        HazardMoments(1, 2),
        _numbers(
            Pair("both ends", np.array([0.5, 0.5, 0.0]), 1.0, np.array([-0.5, 0.0, 0.5]), 1.0),
            start=HazardMoments(1, 2).start,
        ),
    ),
}
SCENES = (
    Scene(),
    Scene(RECORD, "add-remove", 5, weighted=True, sparse=True),
    Scene(PERSON, "add-remove"),
    Scene(ROWS, "replace-one", 5),
    Scene(TRAVELLER, "add-remove"),
    Scene(BOTH, "add-remove", 5),
)


def cases() -> list[Case]:
    """Every registered statistic, masked and not, released once; hazards also by Newton's steps."""
    missing = [name for name in STATISTICS if name not in EXAMPLES]
    assert not missing, f"give the statistics {missing} an example in chain_statistics.EXAMPLES"
    found = []
    for name in STATISTICS:
        statistic, family = EXAMPLES[name]()
        made: dict[str, Algorithm] = {
            f"{name}, {noise}": StatisticRelease(statistic, noise)
            for noise in ("masked", "independent")
        }
        if isinstance(statistic, HazardMoments):
            made["Newton, masked"] = HazardNewton(statistic)
        for k, (title, algorithm) in enumerate(made.items()):
            rounds = 2 if isinstance(algorithm, HazardNewton) else 1
            for scene in SCENES[k % 2 :: 2] if rounds == 1 else SCENES[:1]:
                found.append(Case(title, algorithm, scene, "even", 1 + 5 * (k % 2), rounds, family))
    return found


assert tc.algorithms  # registers everything that the package has
