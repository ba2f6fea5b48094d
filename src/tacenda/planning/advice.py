"""Said before a run, from public numbers alone: a budget that promises next to nothing, noise above
all that the records can say, or members so small that they make the noise of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacenda._types import Array
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.words import counted

# From here on a model is hardly better than a guess: the length of the noise in the average
# gradient, over the largest that a mean of gradients can have.
TOO_MUCH = 0.35
UNEVEN = 1.25  # times the noise without the smallest members, from which they are named
MOST_NAMED = 5


def too_much_noise(facts: Facts, privacy: Privacy) -> list[str]:
    """One sentence where the noise that the budget asks for is larger than what all records
    together can say; often none."""
    k = facts.constants
    largest = float(np.max(np.asarray(privacy.epsilon, float)))
    if privacy.delta == 0 or not math.isfinite(k.gradient_bound) or not 0 < largest < math.inf:
        return []
    noise = facts.gradient_sensitivity() / gaussian_mu(largest, privacy.delta)
    n, average = facts.n, average_noise(noise, privacy.coalition)
    share = average * math.sqrt(facts.dim) / (k.gradient_bound * k.loss_scale)
    if share <= TOO_MUCH:
        return []
    records = float(facts.sizes.sum())
    return [
        f"Too much noise: at epsilon={largest:g} the noise is {share:.2g} times the largest signal "
        f"that {counted(int(records), 'record')} on {counted(n, 'node')} can give {facts.dim} "
        "weights, so the model will hardly be better than a guess. Use more records (about "
        f"{records * share / (0.2 * TOO_MUCH):.0f} in all), fewer features or a larger epsilon."
    ]


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
        f"Small members make the noise of all: with {', '.join(said)}{more} it is "
        f"{now / kept[best]:.3g} times what it is without {them}. "
        f"What helps: {'; or '.join(remedies)}."
    ]


def _remedy(what: str, now: float, then: float) -> list[str]:
    return [f"{what}, for {now / then:.3g} times less"] if now > UNEVEN * then else []
