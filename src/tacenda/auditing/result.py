"""What an audit found: a lower bound on epsilon beside the claim,
and whether the claim survives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacenda._types import Array
from tacenda.auditing.bounds import Bound, GaussianFit
from tacenda.auditing.shared_noise import UNLIKELY
from tacenda.formats.files import write_json
from tacenda.words import counted


@dataclass(frozen=True, eq=False)
class AuditResult:
    """Outcome of repeated runs on two neighbouring data sets.

    Attributes
    ----------
    algorithm : dict
        The algorithm in plain values.
    mode : str
        "sound" or "as-published".
    adjacency : str
        The neighbouring relation.
    rounds : int
        Rounds of each run.
    trials : int
        Number of runs.
    confidence : float
        Probability with which the bounds hold.
    delta : float
        The delta at which they hold.
    claimed : (float, float)
        What the run's noise is claimed to give, (epsilon, delta): the accountant's figure, or the
        paper's claim.
    true_epsilon : float
        The accountant's own epsilon at `delta`, for any claim.
    epsilon : Bound
        Lower bound on epsilon, with its threshold.
    mu : Bound or None
        The same for Gaussian differential privacy, where every release is an unsampled
        Gaussian.
    mu_fit : GaussianFit or None
        Gaussian fit of the scores.
    mu_claimed : float or None
        What the claim means for mu.
    canary : dict
        The two records that differ.
    node : int
        Position of the attacked node.
    seed : int
        The seed.
    jobs : int
        Number of processes.
    seconds : float
        Wall-clock time.
    attacks : tuple of (str, float)
        Every attack that was tried, with the distance of the two data sets' mean scores in
        standard deviations, on the half of the trials that chooses.
    attack : str
        The chosen one, from which the bounds come.
    declared_chance : float or None
        Where neighbours share noise: a p-value of that noise being as declared, whatever
        follows for privacy.
    why : str or None
        One sentence where the claimed and the accounted epsilon differ.
    scores : ndarray
        Score of each trial.
    truth : ndarray
        Data set of each trial, 0 or 1.

    Examples
    --------
    >>> import tacenda as tc
    >>> attacked = tc.audit(
    ...     "cdpadmm", privacy=tc.Privacy(1.0), rounds=2, trials=200, seed=0, progress=False
    ... )
    >>> attacked.broken, attacked.lower_bound <= 1.0
    (False, True)
    """

    algorithm: dict[str, Any]
    mode: str
    adjacency: str
    rounds: int
    trials: int
    confidence: float
    delta: float
    claimed: tuple[float, float]
    true_epsilon: float
    epsilon: Bound
    mu: Bound | None
    mu_fit: GaussianFit | None
    mu_claimed: float | None
    canary: dict[str, Any]
    node: int
    seed: int
    jobs: int
    seconds: float
    attacks: tuple[tuple[str, float], ...] = (("likelihood ratio", math.nan),)
    attack: str = "likelihood ratio"
    declared_chance: float | None = None
    why: str | None = None
    scores: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    truth: Array = field(default_factory=lambda: np.zeros(0, int), repr=False)

    @property
    def lower_bound(self) -> float:
        """Epsilon is at least this at `delta`, with the stated confidence (never below 0)."""
        return max(0.0, self.epsilon.value)

    @property
    def mu_lower(self) -> float | None:
        """mu is at least this, with the stated confidence; None where it is not defined."""
        return None if self.mu is None else max(0.0, self.mu.value)

    @property
    def broken(self) -> bool:
        """Whether a lower bound exceeds its claim."""
        by_mu = (
            self.mu_claimed is not None
            and self.mu_lower is not None
            and self.mu_lower > self.mu_claimed
        )
        return self.lower_bound > self.claimed[0] or by_mu

    @property
    def verdict(self) -> str:
        """ "broken", "not as declared" or "consistent".

        Broken if a lower bound exceeds its claim; not as declared if shared noise differs from what
        was declared, whatever follows for privacy.
        """
        if self.broken:
            return "broken"
        return "not as declared" if self.as_declared is False else "consistent"

    @property
    def as_declared(self) -> bool | None:
        """Whether shared noise looks as declared; None where none is shared.

        It may differ and be as private, or more.
        """
        return None if self.declared_chance is None else self.declared_chance >= UNLIKELY

    @property
    def contradicts_accountant(self) -> bool:
        """Whether the attack gained more than this library's own accountant allows.

        That would be an error of ours, or of luck.
        """
        return self.lower_bound > self.true_epsilon

    def summary(self) -> str:
        """The result in one sentence."""
        percent = f"{100 * self.confidence:g} %"
        said = f"claimed {self.claimed[0]:.4g}"
        if self.mode == "as-published":
            said += f" by the paper; the accountant says {self.true_epsilon:.4g}"
        mu = (
            ""
            if self.mu is None or self.mu_claimed is None
            else f"; mu at least {self.mu_lower:.4g} of {self.mu_claimed:.4g}"
        )
        return (
            f"{self.algorithm['name']}: {self.verdict}: "
            f"epsilon is at least {self.lower_bound:.4g} at delta {self.delta:g} with {percent} "
            f"confidence ({said}){mu}; {self.trials} trials of {counted(self.rounds, 'round')} "
            f"in {self.seconds:.1f} s, seed {self.seed}. {self.about_attacks()}"
        )

    def about_attacks(self) -> str:
        """Which attacks were tried, and which one the bounds come from."""
        said = f"Best of {counted(len(self.attacks), 'attack')}: {self.attack}."
        if self.as_declared is False:
            said += f" The shared noise is not as declared (p = {self.declared_chance:.1g})."
        return said

    def __repr__(self) -> str:
        return f"AuditResult({self.summary()})"

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files and --json; the single scores are left out.

        Result: numbers, strings, lists and dictionaries only.
        """
        bounds = {"epsilon_bound": self.epsilon, "mu_bound": self.mu}
        return {
            "format": "tacenda-audit-result-1",
            "verdict": self.verdict,
            "lower_bound": self.lower_bound,
            "claimed": [_number(v) for v in self.claimed],
            "true_epsilon": _number(self.true_epsilon),
            "mu_lower": self.mu_lower,
            "mu_claimed": self.mu_claimed,
            "mu_fit": None
            if self.mu_fit is None
            else {"mu": self.mu_fit.mu, "interval": list(self.mu_fit.interval)},
            **{
                k: None if b is None else {n: _number(v) for n, v in vars(b).items()}
                for k, b in bounds.items()
            },
            **{
                k: getattr(self, k)
                for k in (
                    "algorithm",
                    "mode",
                    "adjacency",
                    "rounds",
                    "trials",
                    "confidence",
                    "delta",
                )
            },
            "attack": self.attack,
            "attacks": [
                {"name": name, "separation": _number(value)} for name, value in self.attacks
            ],
            "shared_noise_as_declared": self.as_declared,
            "shared_noise_chance": self.declared_chance,
            **{k: getattr(self, k) for k in ("canary", "node", "seed", "jobs", "seconds", "why")},
        }

    def save(self, path: str | Path) -> Path:
        """Write `to_plain` as JSON.

        Result: the file that was written.
        """
        return write_json(path, self.to_plain())


def _number(value: Any) -> Any:
    if isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else "inf" if number > 0 else "-inf"
