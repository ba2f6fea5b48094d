"""`OneRunResult`: what `audit_one_run` found."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda.formats.files import write_json
from tacenda.words import counted


@dataclass(frozen=True, eq=False)
class OneRunResult:
    """Outcome of an audit with canaries planted in one run.

    All lower bounds on epsilon at `delta` hold together with the stated confidence.

    Attributes
    ----------
    algorithm : dict
        The algorithm in plain values.
    mode : str
        "sound" or "as-published".
    adjacency : str
        The neighbouring relation.
    rounds : int
        Rounds of the run.
    coins : int
        How many coins decided about canaries.
    guesses : int
        How many of them the adversary guessed.
    right : int
        How many guesses were right.
    confidence : float
        Probability with which the bounds hold.
    delta : float
        The delta at which they hold.
    claimed : (float, float)
        What the noise is claimed to give, (epsilon, delta).
    true_epsilon : float
        The accountant's own epsilon at `delta`.
    lower_bound : float
        Epsilon is at least this, whatever the run is like.
    curve_bound : float
        The same for noise of the declared kind, if only its amount may be wrong: then
        more is known of the guesses than epsilon and delta tell. Where the canaries are seen
        through independent noise (`independent`), guesses of all coins count as well, and
        independence is assumed too.
    independent : bool
        Whether the canaries are seen through independent noise.
    attack : str
        What gave the curve bound.
    attacks : tuple of (str, int)
        How many guesses each attack had right.
    seed : int
        The seed of the run.
    seconds : float
        Wall-clock time.
    why : str or None
        One sentence where the claimed and the accounted epsilon differ.

    Examples
    --------
    >>> import tacenda as tc
    >>> data = tc.data.make_classification(200, 3, seed=0)
    >>> shards = tc.data.partition.even(data.X, data.y, 4, seed=0)
    >>> problem = tc.Problem(shards, classes=(0, 1))
    >>> found = tc.audit_one_run(
    ...     problem, tc.graph.ring(4), "cdpadmm", privacy=tc.Privacy(1.0), rounds=5, seed=0,
    ...     progress=False,
    ... )  # fmt: skip
    >>> found.verdict
    'consistent'
    """

    algorithm: dict[str, Any]
    mode: str
    adjacency: str
    rounds: int
    coins: int
    guesses: int
    right: int
    confidence: float
    delta: float
    claimed: tuple[float, float]
    true_epsilon: float
    lower_bound: float
    curve_bound: float
    independent: bool
    attack: str
    attacks: tuple[tuple[str, int], ...]
    seed: int
    seconds: float
    why: str | None = None

    @property
    def broken(self) -> bool:
        """Whether a lower bound exceeds its claim."""
        return max(self.lower_bound, self.curve_bound) > self.claimed[0]

    @property
    def verdict(self) -> str:
        """ "broken" if a lower bound exceeds its claim, else "consistent"."""
        return "broken" if self.broken else "consistent"

    def summary(self) -> str:
        """The result in one sentence."""
        said = f"claimed {self.claimed[0]:.4g}"
        if self.mode == "as-published":
            said += f" by the paper; the accountant says {self.true_epsilon:.4g}"
        return (
            f"{self.algorithm['name']}: {self.verdict}: "
            f"epsilon is at least {self.curve_bound:.4g} at delta {self.delta:g} for noise of "
            f"the declared kind and {self.lower_bound:.4g} for any, "
            f"with {100 * self.confidence:g} % confidence ({said}); "
            f"one run of {counted(self.rounds, 'round')}, "
            f"{self.right} of {counted(self.guesses, 'guess', 'guesses')} right, "
            f"{counted(self.coins, 'canary', 'canaries')}, {self.seconds:.1f} s, "
            f"seed {self.seed}. Best of {counted(len(self.attacks), 'attack')}: {self.attack}."
        )

    def __repr__(self) -> str:
        return f"OneRunResult({self.summary()})"

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files and --json.

        Result: numbers, strings, lists and dictionaries only.
        """
        return {
            "format": "tacenda-one-run-audit-2",
            "verdict": self.verdict,
            **dataclasses.asdict(self),
        }

    def save(self, path: str | Path) -> Path:
        """Write `to_plain` as JSON.

        Result: the file that was written.
        """
        return write_json(path, self.to_plain())
