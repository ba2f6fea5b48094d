"""Any algorithm on whitened records: round 1 also releases the second moment that makes the map.

The recursion is that of `whitening`; here it wraps another algorithm's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.around import Around
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.node import Node
from tacenda.algorithms.outset import flatter
from tacenda.algorithms.published import Published, Sites
from tacenda.algorithms.taken import FOR_NEXT, Taken
from tacenda.algorithms.traits import Traits
from tacenda.algorithms.whitening import (
    DIAGONAL,
    MOMENT,
    MOMENT_FLOOR,
    STRENGTH,
    Whitening,
    choose,
    clip_of,
    model_noise,
    times,
)
from tacenda.algorithms.whitening_limits import check_whitening, whitening_advice
from tacenda.errors import StateError, UnsupportedError
from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.questions.constants import SENSIBLE
from tacenda.questions.facts import Facts, RecordMap
from tacenda.questions.moments import packed, unpacked


@dataclass(frozen=True)
class WhitenedState:
    """inner: the wrapped algorithm's state, in the records' own coordinates until there is a map.

    matrix (d, k), or (d,) for a diagonal one, and numbers (clip, or 0 for none; smoothness; the
    chosen strength, or -1 where it was declared; `Chosen.unknown`; `Chosen.longer`): the public
    map, held once for all nodes.
    noise_std (k,), map_std (2, k), variance (k,): as in `Chosen`.
    for_next: the released moment, its labels' scale, its noise's std and `Chosen.risk`, for a run
    after this one.
    """

    inner: Any
    matrix: Array | None = field(default=None, metadata={"common": True})
    numbers: Array | None = field(default=None, metadata={"common": True})
    noise_std: Array | None = field(default=None, metadata={"common": True})
    map_std: Array | None = field(default=None, metadata={"common": True})
    variance: Array | None = field(default=None, metadata={"common": True})
    for_next: Array | None = field(default=None, metadata={"common": True})


@dataclass(frozen=True)
class Whitened(Around):
    """The wrapped algorithm on whitened records; the release of the moment is part of round 1.

    Parameters
    ----------
    algorithm : Algorithm
        What runs on the mapped records.
    whitening : Whitening, optional
        How they are mapped.
    taken : Taken or None, default=None
        What a run before this one released: then no moment is released, and all of the budget is
        for the rounds.

    Examples
    --------
    >>> import tacenda as tc
    >>> tc.algorithms.Whitened(tc.algorithms.TreeGD()).name
    'whitened'
    """

    whitening: Whitening = Whitening()
    taken: Taken | None = None

    name: ClassVar[str] = "whitened"
    beside: ClassVar[str] = "whitened"

    # ---- the run
    def init(self, node: Node, w: Array) -> WhitenedState:
        return WhitenedState(self.algorithm.init(node, w))

    @property
    def ratio(self) -> float:
        """What the moment takes of the budget, over what the rounds take."""
        share = 0.0 if self.taken is not None else self.whitening.share
        return share / (1 - share)

    def has_learned(self, s: WhitenedState) -> bool:
        return s.matrix is not None

    def learn(self, s: WhitenedState, node: Node) -> WhitenedState:
        """The public map, from the moment, which is released once."""
        if self.taken is not None:
            return self._with_map(s, node) if s.matrix is None else s
        if s.matrix is None and node.turn > 1:
            raise StateError(
                "This member missed round 1, in which the public map is made, and no other member "
                "has sent it the map."
            )
        if s.matrix is None:
            return self._with_map(s, node)
        if node.turn == 1:  # made again: the other calls keep their places
            node.skip_mean()
        return s

    def step(self, s: WhitenedState, node: Node) -> WhitenedState:
        if s.matrix is None:
            s = self.learn(s, node)
        mapped = self._mapped(s, node)
        return replace(s, inner=self.algorithm.step(s.inner, mapped))

    def _with_map(self, s: WhitenedState, node: Node) -> WhitenedState:
        """Release the moment, choose the map, and begin where the public start lies in it."""
        start = np.asarray(self.algorithm.last(s.inner))
        scale = self.whitening.labels_in(node.facts, self.algorithm)
        if self.taken is None:
            row, std = self._moment(node, start.dtype)
            ratio = self.ratio
        else:
            row = self.taken.moment_for(node.facts, self.whitening, self.algorithm, start)
            std = self.taken.std
            ratio = self._ratio_of(std, node, start.dtype, len(row))
        found = choose(
            row if self._diagonal(node.facts) else unpacked(row),
            std,
            node.facts,
            self.whitening,
            self.algorithm,
            ratio * node.rounds * self.algorithm.traits.steps_per_round,
            node.rounds,
            node.n_nodes * node.facts.smallest,
            self.taken,
        )
        strength = -1.0 if found.strength is None else found.strength
        numbers = [found.clip or 0.0, found.smoothness, strength, found.unknown, *found.longer]
        s = WhitenedState(
            None,
            found.matrix,
            np.array(numbers),
            found.noise_std,
            found.map_std,
            found.variance,
            np.append(row, [scale, std, found.risk]),
        )
        if found.start.any():  # and nobody named another
            named = start.any(axis=1, keepdims=True)
            start = np.where(named, start, found.start.astype(start.dtype))
        if found.matrix.ndim == 1:
            back = 1.0 / found.matrix
        else:
            squares = (found.matrix**2).sum(axis=0)
            back = found.matrix.T / squares[:, None]  # the columns are orthogonal
        inner = self.algorithm.init(self._mapped(s, node), times(back, start))
        return replace(s, inner=inner)

    def _ratio_of(self, std: float, node: Node, dtype: Any, width: int) -> float:
        """What the moment would have to take of this run's budget, over the rounds, to have noise
        of that std: by the noise of a moment that takes as much as they do."""
        inner, facts = self.algorithm, node.facts
        scale, after = self.whitening.labels_in(facts, inner), self.mapped_facts(facts)
        spent = inner.spends(after, node.degree, node.rounds)
        if inner.traits.shared_noise is not None:
            assert isinstance(spent, float)
            unit = facts.worst_moment_sensitivity(scale) / math.sqrt(spent)
            if not inner.traits.masks:
                unit = unit / after.worst_gradient_sensitivity
            alike = node.mean_std(unit, width)
        else:
            moved = facts.moment_sensitivity(scale)[:, None]
            own = node.noise_multiplier * moved / np.sqrt(spent)
            mean = node.average((own**2).astype(dtype, copy=False))[0]
            alike = math.sqrt(max(float(np.asarray(mean, float)[0]), 0.0) / node.n_nodes)
        return (alike / std) ** 2 if std > 0 else 1.0

    def _moment(self, node: Node, dtype: Any) -> tuple[Array, float]:
        """The network's mean second moment with noise, one row, and the std of its entries."""
        inner, facts, ratio = self.algorithm, node.facts, self.ratio
        scale = self.whitening.labels_in(facts, inner)
        value = node.second_moment(scale, diagonal=self._diagonal(facts))
        after = self.mapped_facts(facts)
        spent = inner.spends(after, node.degree, node.rounds)
        if inner.traits.shared_noise is not None:
            assert isinstance(spent, float)
            # in units in which it needs the noise of any other release, and so the same grid
            unit = facts.worst_moment_sensitivity(scale) / math.sqrt(ratio * spent)
            if not inner.traits.masks:
                unit = unit / after.worst_gradient_sensitivity
            kind = "masked" if inner.traits.masks else "correlated"
            mean = unit * node.release_mean(value / unit, noise=kind)
            return np.asarray(mean[0], float), node.mean_std(unit, mean.shape[1])
        if isinstance(spent, float):
            unit, weight = facts.constants.data_norm**2, ratio * spent
            released = unit * node.release(value / unit, weight=weight)
            std = node.noise_multiplier * (value.sensitivity[:, None] / math.sqrt(weight))
        else:  # the noise has the scale itself for its std
            factor = np.sqrt(ratio * spent) / value.sensitivity[:, None]
            released = node.release(value * factor, relative_std=1.0) / factor
            std = node.noise_multiplier / factor
        both = node.average(np.hstack([released, std**2]).astype(dtype, copy=False))
        row = np.asarray(both[0], float)
        return row[:-1], math.sqrt(max(float(row[-1]), 0.0) / node.n_nodes)

    def _mapped(self, s: WhitenedState, node: Node) -> Node:
        assert s.matrix is not None and s.numbers is not None
        clip, smoothness, strength = (float(x) for x in s.numbers[:3])
        taught = None if strength < 0 else strength
        smoothness *= self._flatter(s, node.facts)
        return node.mapped(
            RecordMap(
                s.matrix,
                self._row_norm(s.matrix, node),
                clip or None,
                smoothness,
                taught,
                s.numbers[4:],
            )
        )

    def _flatter(self, s: WhitenedState, facts: Facts) -> float:
        """By how much the loss bends less at the model than where steps were planned, at most 1;
        the last feature is the constant."""
        typical = getattr(facts.constants.loss, "typical_rate", None)
        if typical is None or s.inner is None or s.noise_std is None or not len(s.noise_std):
            return 1.0
        assert s.matrix is not None
        if s.matrix.ndim == 1:
            return 1.0
        assert s.variance is not None
        lengths = np.sqrt((s.matrix**2).sum(axis=0))
        model = lengths * np.asarray(self.algorithm.last(s.inner), float)[0]  # along the axes
        constant = s.matrix[-1] / lengths
        return flatter(typical, model, constant, s.variance, lengths * s.noise_std)

    def _row_norm(self, matrix: Array, node: Node) -> float:
        """To which mapped rows are cut. An algorithm that follows the release has its gradients
        clipped, so it needs no short rows, and its model is of the rows as they are."""
        if not self.algorithm.traits.tuned_by_release:
            return self.whitening.norm
        columns = matrix if matrix.ndim == 1 else np.sqrt((matrix**2).sum(axis=0))
        longest = node.facts.constants.data_norm * float(columns.max()) * (1 + 1e-9)
        return min(max(longest, SENSIBLE[0]), SENSIBLE[1])

    def mapped_facts(self, facts: Facts) -> Facts:
        """Public facts of the mapped records, as far as they are known before any release.

        facts: those of the original records.
        """
        width = facts.n_features
        kept = width if self.whitening.rank is None else min(width, self.whitening.rank)
        some = np.ones(width) if self._diagonal(facts) else np.eye(width, kept)
        return facts.mapped(RecordMap(some, self.whitening.norm, clip_of(facts, self.whitening)))

    def _diagonal(self, facts: Facts) -> bool:
        return self.whitening.kind_for(facts.n_features) == DIAGONAL

    def released(self, s: WhitenedState) -> dict[str, Array]:
        """What the wrapped algorithm leaves; "strength" (1,), where it was chosen after a release;
        and of the map "diagonal" (d,), where it is one, else "second_moment", packed: that of the
        records, as far as it stands out of its noise, and "second_moment_floor" (1,), up to which
        a variance does not; "for_next", as `Taken` reads it."""
        found = self.algorithm.released(s.inner)
        if s.matrix is None:
            return found
        assert s.numbers is not None and s.for_next is not None
        found = {**found, FOR_NEXT: s.for_next}
        if s.numbers[2] >= 0:
            found = {**found, STRENGTH: s.numbers[2:3].copy()}
        if s.matrix.ndim == 1:
            return {**found, DIAGONAL: s.matrix}
        assert s.variance is not None
        axes = s.matrix / np.sqrt((s.matrix**2).sum(axis=0))
        moment = packed((axes * s.variance) @ axes.T)
        return {**found, MOMENT: moment, MOMENT_FLOOR: s.numbers[3:4].copy()}

    def noise_std(self, s: WhitenedState, facts: Facts, rounds: int) -> Array | None:
        """By the forecast on the released spectrum, of an algorithm that follows it."""
        if s.matrix is None or s.noise_std is None or not len(s.noise_std):
            return None
        assert s.map_std is not None and s.numbers is not None
        model = np.asarray(self.iterate(s)[0], float).reshape(facts.constants.n_outputs, -1)
        each = np.outer(s.numbers[4:], s.noise_std) / self._flatter(s, facts)
        return model_noise(s.matrix, each, s.map_std, model)

    def iterate(self, s: WhitenedState) -> Array:
        return self._back(s, self.algorithm.iterate(s.inner))

    def last(self, s: WhitenedState) -> Array:
        return self._back(s, self.algorithm.last(s.inner))

    @staticmethod
    def _back(s: WhitenedState, models: Array) -> Array:
        return models if s.matrix is None else times(s.matrix, np.asarray(models))

    def restart(self, s: WhitenedState, node: Node) -> WhitenedState:
        """The map stays: it was released, and nothing of it belongs to the neighbours."""
        there = node if s.matrix is None else self._mapped(s, node)
        return replace(s, inner=self.algorithm.restart(s.inner, there))

    # ---- what goes together
    def check(self, facts: Facts, topology: Topology, rounds: int, private: bool) -> None:
        check_whitening(self.whitening, self.algorithm, facts)
        self.algorithm.check(self.mapped_facts(facts), topology, rounds, private)

    def advice(self, facts: Facts, topology: Topology, rounds: int) -> list[str]:
        found = self.algorithm.advice(self.mapped_facts(facts), topology, rounds)
        return [*found, *whitening_advice(self.whitening, facts)]

    def published_noise(
        self, facts: Facts, sites: Sites, weights: Array, privacy: Privacy
    ) -> Published:
        raise self._not_printed()

    def published_form(self) -> Algorithm:
        raise self._not_printed()

    def _not_printed(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.title}: no paper here publishes noise for whitened records, so it cannot run "
            "as published; use mode='sound', or leave prepare out."
        )

    @property
    def traits(self) -> Traits:
        return replace(
            self.algorithm.traits,
            repeats_releases=False,  # round 1 releases the moment too
            uses_start=True,
            tuned_by_release=False,
            learns=self.taken is None,
        )

    def largest_mean(self, facts: Facts, records: float, noise: float) -> float:
        share = (records + math.sqrt(2) * noise) / facts.smallest
        scale = self.whitening.labels_in(facts, self.algorithm)
        moment = facts.moment_bound(scale) * max(1.0, share)
        return max(self.algorithm.largest_mean(facts, records, noise), moment)

    def to_plain(self) -> dict[str, Any]:
        own = self.whitening.to_plain()
        del own["name"]
        taken = {} if self.taken is None else {"taken": self.taken.to_plain()}
        return {"name": self.name, **own, **taken, "algorithm": self.algorithm.to_plain()}
