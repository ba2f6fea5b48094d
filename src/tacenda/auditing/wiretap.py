"""The adversary at the door: it sees every released value, and keeps the log likelihood ratio of
the two worlds.

All copies of a trial (see `worlds`) pass through the production door together. What comes out is
the value of the true world with its noise; every copy of the trial then goes on with that one
value. So all copies share one transcript, each computes what its own world would have answered
given that transcript, and the ratio is exact, hidden states included:

    Gaussian      (|r - v0|^2 - |r - v1|^2) / (2 std^2)
                  v0, v1 the worlds' values, r the released one
    sampled       the same for mixtures q N(v_h, std^2) + (1 - q) N(v, std^2), v the value without
                  the canary
    masked        the same of sums of rows in which the masks cancel (`masked_noise`)
    shared noise  the same with several covariances, as several listeners see them (`shared_noise`):
                  one score for each
    l2-Laplace    rate (|r - v0| - |r - v1|)
    objective     rate (|e0| - |e1|) + ln det H1 - ln det H0, or with Gaussian noise
                  (|e0|^2 - |e1|^2) / (2 std^2) + ln det H1 - ln det H0
                  e_h = -grad F_h(r), H_h its Hessian at r

The adversary knows all settings, so it prices each release by the published plan, not by what the
door did: a door that adds less noise than it says is caught.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacenda._types import Array
from tacenda.auditing.masked_noise import MaskedAttacks, MaskedResiduals, Spread
from tacenda.auditing.sampling import TrialNoise
from tacenda.auditing.shared_noise import Attacks, Moments, Residuals
from tacenda.auditing.worlds import Script, SharedStore
from tacenda.privacy.secrets.bounded import Bounded, open_parts, open_values
from tacenda.privacy.secrets.door import Door, Question
from tacenda.privacy.secrets.mechanisms import NoiseKind, Site
from tacenda.privacy.secrets.noise_plan import NoisePlan, price
from tacenda.questions.queries import Queries

MOST_FOR_DETERMINANT = (
    64  # beyond this dimension the determinants are left out: a valid score, slightly weaker
)


class AskedQueries(Queries):
    """Queries that remember the public terms of the last open argmin,
    which the adversary knows as well."""

    asked: tuple[Array, Array, Array]

    def question(self, linear: Array, quadratic: Array, centre: Array | Bounded) -> Question:
        q = np.broadcast_to(np.asarray(quadratic, float), (centre.shape[0], 1))
        self.asked = (linear, q, open_values(centre) if isinstance(centre, Bounded) else centre)
        return super().question(linear, quadratic, centre)


class Portion(NamedTuple):
    """scores (count, attacks) and separations (count,) of some trials;
    moments: of noise that neighbours share."""

    scores: Array
    separation: Array
    moments: Moments | Spread | None


class Wiretap:
    """The gate of a block of trials: production door inside, likelihood ratios outside.

    score (trials,): ln p(transcript | world 1) - ln p(transcript | world 0). separation (trials,):
    the sum of squared distances between the two worlds' values, each in units of its noise; what a
    canary is chosen by.
    """

    def __init__(
        self,
        script: Script,
        door: Door,
        queries: Queries,
        store: SharedStore,
        noise: TrialNoise,
        truth: Array,
    ) -> None:
        self._script = script
        self._door = door
        self._queries = queries
        self._store = store
        self._noise = noise
        self._truth, self._shape = truth, (len(truth), script.variants, script.n)
        self.score = np.zeros(len(truth))
        self.separation = np.zeros(len(truth))
        self._residuals = None if script.attacks is None else script.attacks.residuals(truth)

    def portion(self) -> Portion:
        """All that was learnt from the releases so far."""
        if self._residuals is None:
            return Portion(self.score[:, None], self.separation, None)
        return Portion(self._residuals.scores(), self.separation, self._residuals.moments())

    @property
    def _plan(self) -> NoisePlan:
        """Of the door: only a run with privacy is attacked."""
        assert self._door.plan is not None
        return self._door.plan

    def release(
        self,
        value: Bounded,
        turn: int,
        call: int,
        noise: str,
        relative_std: float | None,
        weight: float = 1.0,
    ) -> Array:
        """The production release of the true world's copy, given to all copies."""
        secret = self._split(open_values(value))
        rate = (
            None
            if value.sample.rate is None
            else self._split(value.sample.rate)[:, 0, self._script.node]
        )
        out = self._split(self._door.release(value, turn, call, noise, relative_std, weight))
        site = Site(
            turn,
            weight * self._plan.weight(turn),
            self._door.dim,
            NoiseKind.added(noise),
            value.sensitivity,
            value.sample,
            relative_std,
        )
        amount = self._split(price(self._plan, site)[1])[:, 0]
        world = np.where(self._noise.included, self._truth, 2) if rate is not None else self._truth
        seen = out[np.arange(len(world)), world]
        if noise == "correlated":
            self._note_correlated(seen, secret, amount, self._streams(turn, call, value.shape[1]))
        elif rate is not None:
            self._note_sampled(seen, secret, amount, rate)
        else:
            self._note_additive(seen, secret, amount, noise)
        return self._for_all(seen)

    def _streams(self, turn: int, call: int, dim: int) -> Array:
        """(trials, E, dim) the edges' normals, or words of masks, that some listener holds, as the
        true world's copy of the network drew them."""
        assert self._script.attacks is not None
        edges, per_copy = self._script.attacks.edges, len(self._script.spec.masks_graph.edges)
        copy = np.arange(len(self._truth)) * self._shape[1] + self._truth
        numbers = (copy[:, None] * per_copy + edges).reshape(-1)
        each = (np.arange(len(numbers) + 1), numbers, np.ones(len(numbers)))
        draw = self._noise.masks if self._script.spec.algorithm.traits.masks else self._noise.shared
        return draw(each, turn, call, dim).reshape(len(copy), len(edges), dim)

    def release_masked(
        self, value: Bounded, turn: int, call: int, weight: float
    ) -> tuple[Array, float]:
        """The production release of the true world's copy, given to all copies."""
        assert isinstance(self._residuals, MaskedResiduals)
        assert isinstance(self._script.attacks, MaskedAttacks)
        cores = self._split(open_parts(value)[0])
        rows, unit = self._door.release_masked(value, turn, call, weight)
        out = self._split(rows)
        share = weight * self._plan.weight(turn)
        site = Site(turn, share, self._door.dim, NoiseKind.MASKED, value.sensitivity, value.sample)
        node = self._script.node
        steps = self._split(price(self._plan, site)[1])[:, 0, node] / unit
        seen = out[np.arange(len(self._truth)), self._truth]
        words = self._streams(turn, call, value.shape[1])
        self._residuals.note(seen, (cores[:, 0], cores[:, 1]), steps, words)
        apart = _norm((cores[:, 1, node] - cores[:, 0, node]).astype(float)) / steps
        self.separation += self._script.attacks.share * apart**2
        return self._for_all(seen), unit

    def _note_correlated(self, seen: Array, secret: Array, amount: Array, streams: Array) -> None:
        assert isinstance(self._residuals, Residuals)
        assert isinstance(self._script.attacks, Attacks)
        node, own = self._script.node, amount[:, :, None]
        self._residuals.note(((seen - secret[:, 0]) / own, (seen - secret[:, 1]) / own), streams)
        apart = _norm(secret[:, 1, node] - secret[:, 0, node]) / amount[:, node]
        self.separation += self._script.attacks.within[0, node] * apart**2

    def _note_additive(self, seen: Array, secret: Array, amount: Array, noise: str) -> None:
        """seen (trials, n, d), secret (trials, variants, n, d), amount (trials, n):
        noise_std or rate."""
        far0, far1 = (_norm(seen - secret[:, h]) for h in (0, 1))
        apart = _norm(secret[:, 1] - secret[:, 0])
        if noise == "l2-laplace":
            self.score += (amount * (far0 - far1)).sum(axis=1)
            self.separation += ((amount * apart) ** 2).sum(axis=1)
        else:
            self.score += ((far0**2 - far1**2) / (2 * amount**2)).sum(axis=1)
            self.separation += ((apart / amount) ** 2).sum(axis=1)

    def _note_sampled(self, seen: Array, secret: Array, amount: Array, rate: Array) -> None:
        """Only the attacked node's values differ,
        and they are mixtures over whether the canary was drawn."""
        node = self._script.node
        mine, std, q = secret[:, :, node], amount[:, node], rate
        without = _norm(seen[:, node] - mine[:, 2]) ** 2
        with np.errstate(divide="ignore"):
            in_it, out_of_it = np.log(q), np.log1p(-q)
        likely = [
            np.logaddexp(
                in_it + (without - _norm(seen[:, node] - mine[:, h]) ** 2) / (2 * std**2), out_of_it
            )
            for h in (0, 1)
        ]
        self.score += likely[1] - likely[0]
        self.separation += q * (_norm(mine[:, 1] - mine[:, 0]) / std) ** 2

    def release_argmin(
        self, question: Question, turn: int, call: int, noise: str = "l2-laplace"
    ) -> Array:
        """The production release of the true world's copy;
        its noise follows from the optimality condition."""
        out = self._split(self._door.release_argmin(question, turn, call, noise))
        site = Site(
            turn,
            self._plan.weight(turn),
            self._door.dim,
            NoiseKind.within(noise),
            objective=question.terms,
        )
        amount = price(self._plan, site)[1]
        seen = self._for_all(out[np.arange(len(self._truth)), self._truth])
        assert isinstance(self._queries, AskedQueries)
        linear, q, centre = self._queries.asked
        slope = (
            self._store.gradient(self._door.nodes, seen)
            + linear
            + 2 * q * (seen - centre)
            + amount.extra[:, None] * seen
        )
        size = self._split(amount.amount)[:, 0]
        far, slopes = self._split(_norm(slope)), self._split(slope)
        apart = _norm(slopes[:, 1] - slopes[:, 0])
        if noise == "gaussian":
            self.score += ((far[:, 0] ** 2 - far[:, 1] ** 2) / (2 * size**2)).sum(axis=1)
            self.separation += ((apart / size) ** 2).sum(axis=1)
        else:
            self.score += (size * (far[:, 0] - far[:, 1])).sum(axis=1)
            self.separation += ((size * apart) ** 2).sum(axis=1)
        self._note_determinants(
            self._split(seen)[:, 0], self._split(2 * q[:, 0] + amount.extra)[:, 0]
        )
        return seen

    def _note_determinants(self, seen: Array, ridge: Array) -> None:
        """ln det of the two worlds' Hessians at the attacked node;
        ridge (trials, n) = 2q + extra."""
        s, k = self._script, self._script.spec.facts.constants
        if k.n_outputs > 1 or s.spec.facts.dim > MOST_FOR_DETERMINANT:
            return
        w, base = seen[:, s.node], ridge[:, s.node] + k.strength * k.regulariser.l2
        for sign, shard in ((-1.0, s.node), (1.0, s.n)):
            rows = s.rows[s.offsets[shard] : s.offsets[shard + 1]]
            labels = s.labels[s.offsets[shard] : s.offsets[shard + 1]]
            bent = k.loss.second(w @ rows.T, labels)  # type: ignore[attr-defined]
            bent *= k.loss_scale / s.spec.facts.sizes[s.node]
            hessian = np.einsum("tm,mi,mj->tij", bent, rows, rows, optimize=True)
            hessian[:, np.arange(s.spec.facts.dim), np.arange(s.spec.facts.dim)] += base[:, None]
            self.score += sign * np.linalg.slogdet(hessian)[1]

    def _split(self, values: Array) -> Array:
        """(b, ...) as (trials, variants, n, ...)."""
        return values.reshape(*self._shape, *values.shape[1:])

    def _for_all(self, seen: Array) -> Array:
        """(trials, n, d) given to every copy, (b, d)."""
        return np.repeat(seen[:, None], self._shape[1], axis=1).reshape(-1, seen.shape[-1])


def _norm(rows: Array) -> Array:
    return np.sqrt(np.einsum("...d,...d->...", rows, rows))
