"""Said before a run, from public numbers alone: noise above what the records can say, how many
records a class needs, and members so small that they make the noise of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacenda._types import Array
from tacenda.algorithms.whitening import MOST_FEATURES
from tacenda.planning.forecast import Landscape
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.words import counted

# From here on a model is hardly better than a guess: the length of the noise in the average
# gradient, over the largest that a mean of gradients can have.
TOO_MUCH = 0.35
# Shares of what there is to learn that noise is forecast to cost: where it is said, and what the
# records that are named would bring it down to
WEAK, WELL = 0.25, 0.1
# What real tables have to teach of what planning assumes, and by what the loss predicts: numbers
# are often explained by a fifth, and counts have a mean of often a quarter of the typical one
# (results/measured/planner.md)
TAUGHT, TAUGHT_BY = 1 / 12, {"value": 1 / 16, "quantile": 1 / 16, "log-rate": 1 / 48}
RARE = 0.01  # of the records: a class that needs more may well be too rare to be learnt
MOST_RECORDS = 2.0**40  # over those there are: no more are named
# Of a class's own signal, on whitened rows, noise may cost one half: sqrt(2) features noise records
CLASS = math.sqrt(2.0)
UNEVEN = 1.25  # times the noise without the smallest members, from which they are named
MOST_NAMED = 5


def noise_advice(facts: Facts, privacy: Privacy) -> list[str]:
    """One sentence where noise takes most of what all records together can say, or a large share of
    it, and one where classes may be too rare to be learnt; often none."""
    average = _average_noise(facts, privacy)
    if average is None:
        return []
    k, records, n = facts.constants, facts.records, facts.n
    about = f"{counted(round(records), 'record')} on {counted(n, 'node')}"
    at = f"at epsilon={_largest(privacy):g}"
    share = average * math.sqrt(facts.dim) / (k.gradient_bound * k.loss_scale)
    if share > TOO_MUCH:
        return [
            f"Too much noise: {at} the noise is {share:.2g} times the largest signal that {about} "
            f"can give {facts.dim} weights, so the model will hardly be better than a guess. Use "
            f"more records (about {records * share / (0.2 * TOO_MUCH):.0f} in all), fewer features "
            "or a larger epsilon."
        ]
    found, land = [], _landscape(facts)
    lost = _lost(land, average)
    if lost > WEAK:
        found.append(
            f"Weak signal: {at} noise is forecast to cost {lost:.0%} of what {about} can teach "
            f"{facts.dim} weights, so the model may differ much from run to run. Use more records "
            f"(about {_about(records * _times(land, average))} in all), fewer features or a larger "
            "epsilon."
        )
    needed, classes = class_records(facts, privacy), max(2, k.n_outputs)
    if needed is not None and 2 * classes * needed > records:
        found.append(
            f"Rare classes: {at} a class needs about {_about(needed)} records in all to be learnt, "
            f"and {about} have {records / classes:.0f} for each of {classes} classes if they are "
            "even. Join rare classes, or use more records, fewer features or a larger epsilon."
        )
    return found


def forecast_loss(facts: Facts, privacy: Privacy) -> float:
    """The share of what real tables of this kind have to teach that noise is forecast to cost; 0
    where it has no such noise."""
    average = _average_noise(facts, privacy)
    return 0.0 if average is None else _lost(_landscape(facts), average)


def class_records(facts: Facts, privacy: Privacy) -> float | None:
    """About how many records of all nodes a class needs at this budget; None for a regression,
    where nothing is known of the noise, and for more features than are whitened: most of those are
    rare, and a class is told by the frequent ones.

    A class of n_c records among n bends a whitened loss by n_c/(2n) of its rows' mean square, in
    each of p directions, and has as much signal. Noise of standard deviation s G in the mean
    gradient then costs p^2 (s n/n_c)^2 of it, of which one half is allowed.
    """
    average, k = _average_noise(facts, privacy), facts.constants
    if average is None or not k.loss.classifies or facts.n_features > MOST_FEATURES:
        return None
    noise = average / (k.gradient_bound * k.loss_scale)
    return CLASS * facts.n_features * noise * float(facts.sizes.sum())


def class_sentence(facts: Facts, privacy: Privacy, least: float = 0.0) -> list[str]:
    """The same in words, for a plan; nothing where it is less than `least` of all records."""
    needed = class_records(facts, privacy)
    if needed is None or needed < least * float(facts.sizes.sum()):
        return []
    return [
        f"At this budget a class needs about {_about(needed)} records in all: rarer ones can "
        f"hardly be recognised. How many there are is private; judge by public knowledge."
    ]


def _about(records: float) -> str:
    """To two digits."""
    return f"{float(f'{max(1.0, records):.2g}'):.0f}"


def _largest(privacy: Privacy) -> float:
    return float(np.max(np.asarray(privacy.epsilon, float)))


def _average_noise(facts: Facts, privacy: Privacy) -> float | None:
    """The noise of the network's mean gradient, were the whole budget one release; None where it
    has no such noise."""
    largest = _largest(privacy)
    bounded = math.isfinite(facts.constants.gradient_bound)
    if privacy.delta == 0 or not bounded or not 0 < largest < math.inf:
        return None
    noise = facts.gradient_sensitivity() / gaussian_mu(largest, privacy.delta)
    return average_noise(noise, privacy.coalition)


def _landscape(facts: Facts) -> Landscape:
    """What there is to learn, as weak as it is in real tables."""
    k = facts.constants
    taught = TAUGHT_BY.get(str(k.loss.predicts), TAUGHT)
    assumed = Landscape.assumed(k, facts.dim)
    return replace(assumed, signal=taught * assumed.signal)


def _lost(land: Landscape, noise: float) -> float:
    """The forecast excess risk over that of a model of zeros."""
    step = land.best_step(noise, shrinking=False)
    whole = 0.5 * float(land.copies @ (land.eigenvalues * land.signal))
    return sum(land.excess(step, noise, shrinking=False)) / whole


def _times(land: Landscape, noise: float) -> float:
    """How many times the records bring `_lost` down to WELL."""
    low, high = 1.0, 2.0
    while _lost(land, noise / high) > WELL and high < MOST_RECORDS:
        low, high = high, 2.0 * high
    for _ in range(8):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _lost(land, noise / middle) > WELL else (low, middle)
    return high


def average_noise(noise: Array, coalition: int | None) -> float:
    """The noise in the network's average, of nodes that need this much each (n,). coalition: of
    noise that is shared by neighbours or under masks, where all draw alike; None: of independent
    noise."""
    n = len(noise)
    if coalition is not None and n > coalition + 1:  # the least that shared noise leaves
        return float(noise.max()) / math.sqrt(n * (n - coalition))
    return float(np.linalg.norm(noise)) / n


def uneven_sizes(facts: Facts, names: Sequence[object], coalition: int | None) -> list[str]:
    """One sentence where the smallest nodes make most of the noise, with what it costs and what
    would help; often none. coalition: as in `average_noise`."""
    needs, order = facts.gradient_sensitivity(), np.argsort(-facts.sizes, kind="stable")
    now, least = average_noise(needs, coalition), 2 + (coalition or 0)
    own = replace(facts, noise_sizes=None).gradient_sensitivity()
    kept = {k: average_noise(own[order[:k]], coalition) for k in range(least, facts.n + 1)}
    best = min(kept, key=lambda k: (kept[k], -k), default=facts.n)
    if best == facts.n or now < UNEVEN * kept[best]:
        return []
    small = [int(node) for node in order[: best - 1 : -1]]
    said = [f"{names[k]} ({counted(int(facts.sizes[k]), 'record')})" for k in small[:MOST_NAMED]]
    more = f" and {len(small) - MOST_NAMED} more" if len(small) > MOST_NAMED else ""
    them = "it" if len(small) == 1 else "them"
    remedies = [f"leave {them} out, for {now / kept[best]:.3g} times less noise"]
    if facts.noise_sizes is not None:
        remedies += _remedy('set node_noise = "own"', now, average_noise(own, coalition))
    if coalition is not None:
        alone = 'take independent noise (coalition = "all")'
        remedies += _remedy(alone, now, average_noise(own, None))
    mean = np.full(facts.n, facts.sizes.mean())
    level = replace(facts, sizes=mean, noise_sizes=None).gradient_sensitivity()
    same = f'weight members by size (adjacency = "add-remove", all declare size {mean[0]:.0f})'
    remedies += _remedy(same, now, average_noise(level, coalition))
    return [
        f"Small members raise the noise of all: with {', '.join(said)}{more} it is "
        f"{now / kept[best]:.3g} times what it is without {them}. "
        f"What helps: {'; or '.join(remedies)}."
    ]


def _remedy(what: str, now: float, then: float) -> list[str]:
    return [f"{what}, for {now / then:.3g} times less"] if now > UNEVEN * then else []
