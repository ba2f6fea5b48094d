"""What an audit attacks, and with which canary: chosen before the trials, from runs that are used
for nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.auditing import bounds, stage
from tacenda.auditing.listeners import listeners
from tacenda.auditing.masked_noise import MaskedAttacks, Spread, plan_masked
from tacenda.auditing.portion import run_portions, truth_of
from tacenda.auditing.shared_noise import Attacks, Moments, declared_chance, plan_attacks
from tacenda.auditing.worlds import Canary, Script, two_worlds
from tacenda.errors import InputError
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.problem import Problem
from tacenda.runtime.budget import Calibration
from tacenda.runtime.spec import RunSpec

SEARCH_ROUNDS, SEARCH_TRIALS = 3, 4
# Trials that measure shared noise and choose among canaries; a fixed number, so that an audit can
# be resumed with more.
SCOUTS = 1000
SCOUT_SEED = 0x5C0075


@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """A checked setting, before a canary is chosen."""

    spec: RunSpec
    problem: Problem
    statement: Statement
    node: int
    start: Array
    init: Any
    seed: int
    keyed: bool = False

    @property
    def privacy(self) -> Privacy:
        assert self.spec.privacy is not None
        return self.spec.privacy

    @property
    def calibration(self) -> Calibration:
        assert self.spec.calibration is not None
        return self.spec.calibration

    def script(self, canary: Canary) -> Script:
        return Script(
            self.spec,
            *two_worlds(self.problem, self.node, canary),
            self.node,
            self.start,
            self.seed,
            self.attacks(None),
            self.keyed,
        )

    def attacks(self, measured: Moments | Spread | None) -> Attacks | MaskedAttacks | None:
        """On noise that neighbours share; `measured` adds the attacks that believe their own
        measurement."""
        ratio = self.spec.algorithm.traits.shared_noise
        if ratio is None:
            return None
        if self.spec.algorithm.traits.masks:
            pooled = self.privacy.pooled(self.spec.algorithm.title)
            return plan_masked(self.spec.masks_graph, pooled, self.node)
        assert not isinstance(measured, Spread)
        heard = listeners(
            self.spec.topology, ratio, self.privacy.pooled(self.spec.algorithm.title), self.node
        )
        return plan_attacks(self.spec.topology, ratio, self.node, heard, self.releases, measured)

    @property
    def releases(self) -> int:
        """Of each node in a run."""
        return sum(count for _, count in self.calibration.reserved)


def choose_canaries(given: Any, scene: Scene) -> list[Canary]:
    """The canaries worth attacking with: the one that the declared noise hides least, then what
    else faults may show."""
    if not isinstance(given, str):
        return [_given(given, scene)]
    checks.one_of("canary", given, ("worst",))
    start = scene.start[scene.node] if np.any(scene.start) else None
    start = start if scene.problem.n_outputs == 1 else None
    pairs = stage.candidates(scene.problem, start, scene.privacy.adjacency, scene.seed)
    few = min(scene.spec.rounds, SEARCH_ROUNDS)
    found = [_separation(scene.script(pair), few) for pair in pairs]
    # Of equal ones the first
    best = pairs[int(np.argmax(np.asarray(found) * (1 - 1e-6 * np.arange(len(found)))))]
    changing = [pair for pair in pairs if stage.CHANGING in pair.name and pair is not best]
    return [best, *changing[:1]]


@dataclasses.dataclass(frozen=True, eq=False)
class Aim:
    """What the trials will play: canary, script, the attacks' names, and the chance of what was
    measured of shared noise."""

    canary: Canary
    script: Script
    names: tuple[str, ...]
    chance: float | None = None


def take_aim(scene: Scene, pairs: list[Canary]) -> Aim:
    """Choose the canary and prepare the attacks, from trials that are used for nothing else and so
    cost no confidence."""
    script = scene.script(pairs[0])
    if script.attacks is None:
        return Aim(pairs[0], script, ("likelihood ratio",))
    ratio = scene.spec.algorithm.traits.shared_noise
    assert ratio is not None
    scouts = dataclasses.replace(script, seed=scene.seed + SCOUT_SEED)
    moments = _joined([portion.moments for portion in run_portions(scouts, SCOUTS)])
    chance = (
        moments.chance()
        if isinstance(moments, Spread)
        else declared_chance(
            moments, scene.spec.topology, ratio, script.attacks.edges, scene.releases
        )
    )
    attacks = scene.attacks(moments)
    assert attacks is not None
    scripts = [dataclasses.replace(scene.script(pair), attacks=attacks) for pair in pairs]
    best = 0
    if len(pairs) > 1:
        seen = [
            _strength(dataclasses.replace(one, seed=scene.seed + 2 * SCOUT_SEED)) for one in scripts
        ]
        best = int(
            np.argmax(
                np.asarray(seen) * np.where(np.arange(len(seen)) > 0, 1 / bounds.CLEARLY, 1.0)
            )
        )
    return Aim(pairs[best], scripts[best], tuple(attacks.titles), chance)


def _separation(script: Script, rounds: int) -> float:
    """How far a canary's values are apart, in squares of the declared noise."""
    played = run_portions(script, SEARCH_TRIALS, rounds)
    return float(np.concatenate([portion.separation for portion in played]).mean())


def _strength(script: Script) -> float:
    """How far the best attack tells the worlds apart, in standard deviations."""
    scores = np.concatenate([portion.scores for portion in run_portions(script, SCOUTS)])
    return float(bounds.separations(scores, truth_of(0, len(scores))).max())


def _joined(parts: list[Moments | Spread | None]) -> Moments | Spread:
    found = [one for one in parts if one is not None]
    kind = type(found[0])
    return kind(*(sum(getattr(one, f.name) for one in found) for f in dataclasses.fields(kind)))


def _given(pair: Any, scene: Scene) -> Canary:
    try:
        (x0, y0), (x1, y1) = pair
        first, second = np.asarray(x0, float), np.asarray(x1, float)
    except (TypeError, ValueError):
        raise InputError(
            f"canary must be 'worst' or a pair ((x0, y0), (x1, y1)) of records, not {pair!r}."
        ) from None
    if scene.privacy.adjacency == "add-remove" and np.any(first):
        raise InputError(
            "canary's first record must be all zeros under add-remove, "
            "where it stands for a missing record."
        )
    return Canary(first, _encoded(scene.problem, y0), second, _encoded(scene.problem, y1))


def _encoded(problem: Problem, label: Any) -> float:
    """A label as the losses see it."""
    if problem.loss.kind == "regression":
        return float(label)
    classes = list(problem.classes or ())
    if label not in classes:
        raise InputError(
            f"canary's label must be one of the problem's classes {classes}, not {label!r}."
        )
    k = classes.index(label)
    return float(k) if problem.loss.kind == "multiclass" else 2.0 * k - 1.0
