"""Said before a run, from public numbers alone: a budget that promises next to nothing, or noise
above all that the records can say."""

from __future__ import annotations

import math

import numpy as np

from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.words import counted

# From here on a model is hardly better than a guess: the length of the noise in the average
# gradient, over the largest that a mean of gradients can have.
TOO_MUCH = 0.35


def too_much_noise(facts: Facts, privacy: Privacy) -> list[str]:
    """One sentence where the noise that the budget asks for is larger than what all records
    together can say; often none."""
    k = facts.constants
    largest = float(np.max(np.asarray(privacy.epsilon, float)))
    if privacy.delta == 0 or not math.isfinite(k.gradient_bound) or not 0 < largest < math.inf:
        return []
    noise = facts.gradient_sensitivity() / gaussian_mu(largest, privacy.delta)
    q, n = privacy.coalition, facts.n
    if q is not None and n > q + 1:  # the least that shared noise leaves in the average
        average = float(noise.max()) / math.sqrt(n * (n - q))
    else:
        average = float(np.linalg.norm(noise)) / n
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
