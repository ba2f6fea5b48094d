"""What a simulation can measure between rounds. All of it reads private data without noise:
diagnostics of a simulation only.

objective            (1/n) sum_i f_i at the average model
suboptimality        the same above the reference's
node_objective       its mean over the nodes' own models
worst_objective      its largest over the nodes' own models
local_objective      mean over nodes of f_i at the node's own model, on its own data (Zhang et al.
                     2018)
loss, accuracy, misclassification       of the average model, over all records
node_accuracy, worst_accuracy           mean and least accuracy of the nodes' own models
node_loss, node_misclassification       of the nodes' own models over all records, mean over nodes
own_loss, own_misclassification         of each node's own model over its own records, mean over
                     nodes (Zhang and Zhu 2016)
test_loss, test_accuracy                of the average model, on the given test data
consensus            root mean square distance of the nodes' models from their average
distance             sum_i |w_i - w*|^2 / |w*|^2 with w* the reference (the normalised error of
                     Gauthier et al. 2020)
zeros                share of the coefficients that are exactly 0, mean over the nodes' own models
infeasibility        sum over edges |w_i - w_j| (part of (21) of Huang and Gong 2020)
data_passes          how often a record was read so far, on average: once for a gradient, and once
                     for each gradient, Hessian or product with it that a local solver takes; since
                     the run began, or was resumed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.problem.problem import Problem
from tacenda.runtime.held_out import HeldOutRecords, encode_like
from tacenda.runtime.local_shards import LocalShards

_CHUNK = 1 << 20  # numbers that are looked at together


@dataclass
class Snapshot:
    """The nodes' models (n, d) at one moment, with what is needed to judge them."""

    shards: LocalShards
    topology: Topology
    models: Array
    reference: Array | None
    test: HeldOutRecords | None
    lowest: float | None = None  # the objective at the reference, where it is known already
    passes: float = 0.0  # over the records so far

    @cached_property
    def average(self) -> Array:
        return np.asarray(self.models.mean(axis=0, dtype=float))

    @property
    def problem(self) -> Problem:
        """The problem of the nodes here: what all nodes' have in common."""
        return self.shards.problem

    @cached_property
    def objective(self) -> float:
        return self.shards.objective(self.average)

    @cached_property
    def node_objectives(self) -> Array:
        return self.shards.objectives(np.asarray(self.models, float))

    @cached_property
    def node_accuracies(self) -> Array:
        return self.shards.accuracies(np.asarray(self.models, float))

    @cached_property
    def own_accuracies(self) -> Array:
        """(n,) the share of its own records that each node's own model classifies correctly."""
        return self.shards.own_accuracies(self.models)

    def on_test(self, measured: Callable[[Array, Array], float]) -> float:
        """measured(scores under the average model, labels) of the test records."""
        assert self.test is not None
        labels = self.test.all_labels
        scores = self.test.scores(self.problem, self.average)
        return self.test.ranks.by_root(
            lambda: measured(*map(np.asarray, (scores, labels))), "measuring on the test records"
        )


def _suboptimality(s: Snapshot) -> float:
    lowest = s.shards.objective(_reference(s)) if s.lowest is None else s.lowest
    return s.objective - lowest


def _distance(s: Snapshot) -> float:
    best = _reference(s)
    return float(np.sum((s.models - best) ** 2) / np.sum(best**2))


def _reference(s: Snapshot) -> Array:
    if s.reference is None:
        raise InputError(
            "reference must be given (a model, or 'optimum') "
            "for the metrics suboptimality and distance."
        )
    return s.reference


def _consensus(s: Snapshot) -> float:
    squares, step = np.empty(len(s.models)), max(1, _CHUNK // s.models.shape[1])
    for first in range(0, len(squares), step):  # a copy of all models would be a large one
        some = s.models[first : first + step]
        squares[first : first + step] = np.sum((some - s.average) ** 2, axis=1)
    return float(np.sqrt(np.mean(squares)))


def _infeasibility(s: Snapshot) -> float:
    ends = s.topology.edges
    return float(np.linalg.norm(s.models[ends[:, 0]] - s.models[ends[:, 1]], axis=1).sum())


def _test_accuracy(s: Snapshot) -> float:
    right = s.problem.store.right
    return s.on_test(lambda scores, y: float(np.mean(right(scores.reshape(len(y), -1), y))))


def _test_loss(s: Snapshot) -> float:
    loss: Any = s.problem.loss
    value = loss.of_records if loss.stacked else loss.value
    return s.on_test(lambda scores, y: float(np.mean(value(scores, y))))


def hundredths(value: float) -> float:
    """Round a share, which has the number of records below it."""
    return round(value, 2)


def two_digits(value: float) -> float:
    """Round an amount, which depends on the number of records."""
    return float(f"{value:.2g}")


@dataclass(frozen=True)
class Metric:
    """How a metric is found; coarse: how it is rounded where the number of records is private, None
    for what does not read records; of_classes: whether it needs class labels."""

    found: Callable[[Snapshot], float]
    coarse: Callable[[float], float] | None = None
    of_classes: bool = False


def _share(found: Callable[[Snapshot], float]) -> Metric:
    return Metric(found, hundredths, of_classes=True)


METRICS: dict[str, Metric] = {
    "objective": Metric(lambda s: s.objective, two_digits),
    "suboptimality": Metric(_suboptimality, two_digits),
    "node_objective": Metric(lambda s: float(s.node_objectives.mean()), two_digits),
    "worst_objective": Metric(lambda s: float(s.node_objectives.max()), two_digits),
    "local_objective": Metric(
        lambda s: float(np.mean(s.shards.own_objectives(s.models))), two_digits
    ),
    "loss": Metric(lambda s: s.shards.loss(s.average), two_digits),
    "accuracy": _share(lambda s: s.shards.accuracy(s.average)),
    "misclassification": _share(lambda s: 1.0 - s.shards.accuracy(s.average)),
    "node_accuracy": _share(lambda s: float(s.node_accuracies.mean())),
    "worst_accuracy": _share(lambda s: float(s.node_accuracies.min())),
    "node_loss": Metric(
        lambda s: float(np.mean(s.shards.losses(np.asarray(s.models, float)))), two_digits
    ),
    "node_misclassification": _share(lambda s: 1.0 - float(s.node_accuracies.mean())),
    "own_loss": Metric(lambda s: float(np.mean(s.shards.own_losses(s.models))), two_digits),
    "own_misclassification": _share(lambda s: 1.0 - float(s.own_accuracies.mean())),
    "test_loss": Metric(_test_loss),
    "test_accuracy": Metric(_test_accuracy, of_classes=True),
    "consensus": Metric(_consensus),
    "distance": Metric(_distance),
    "infeasibility": Metric(_infeasibility),
    "zeros": Metric(lambda s: float(np.mean(s.models == 0.0))),
    "data_passes": Metric(lambda s: s.passes, two_digits),
}


def check_metrics(
    metrics: Sequence[str], problem: Problem, reference: Any, test: Any
) -> tuple[str, ...]:
    """The metrics' names, if all are known and can be computed here."""
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in names:
        checks.one_of("metrics", name, METRICS)
        if METRICS[name].of_classes and not problem.loss.classifies:
            raise InputError(
                f"metrics must not hold {name!r} for the loss {problem.loss.name!r}, which names "
                "no class; "
                "use 'loss'."
            )
        if name.startswith("test_") and test is None:
            raise InputError(f"test must be given, (X, y), for the metric {name!r}.")
        if name in ("suboptimality", "distance") and reference is None:
            raise InputError(
                f"reference must be given (a model, or 'optimum') for the metric {name!r}."
            )
    if test is not None:
        _check_test(test, problem)
    return names


def _check_test(test: Any, problem: Problem) -> None:
    """Refuse test data that does not fit, before the first round."""
    if not isinstance(test, (tuple, list)) or len(test) != 2:
        raise InputError(f"test must be a pair (X, y), not a {type(test).__name__}.")
    shape, labels = np.shape(test[0]) or getattr(test[0], "shape", ()), np.asarray(test[1])
    if len(shape) != 2 or shape[1] != problem.record_features or labels.shape != shape[:1]:
        raise InputError(
            f"test must hold X of shape (N, {problem.record_features}) and y of length N, "
            f"not shapes {tuple(shape)} and {labels.shape}."
        )
    encode_like(problem, labels)


def measure(
    names: Sequence[str], snapshot: Snapshot, adjacency: str = "replace-one"
) -> dict[str, float]:
    """The value of each metric, as fine as the relation allows."""
    return as_shown({name: METRICS[name].found(snapshot) for name in names}, adjacency)


def as_shown(
    values: dict[str, Any],
    adjacency: str,
    measures: Mapping[str, Callable[[float], float]] | None = None,
) -> dict[str, Any]:
    """Metrics of private records as they may stand in a file or on a screen.

    Under add-remove the number of records is private, and exact measures tell it: an accuracy is a
    fraction with that number below, an objective grows with it. There accuracies and other shares
    (ROC AUC, F1, R2) are given to 0.01, objectives, losses and errors to two digits. measures: how
    further measures are rounded.
    """
    if adjacency == "replace-one":
        return values
    own = {name: metric.coarse for name, metric in METRICS.items() if metric.coarse is not None}
    rounding = {**own, **(measures or {})}
    return {
        name: _coarse(rounding.get(name.removesuffix("_range")), v) for name, v in values.items()
    }


def _coarse(rounded: Callable[[float], float] | None, value: Any) -> Any:
    if isinstance(value, list):
        return [_coarse(rounded, one) for one in value]
    return value if rounded is None or not isinstance(value, float) else rounded(value)
