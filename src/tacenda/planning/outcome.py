"""`Plan`: what the planner chose, what it expects, and why, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda import checks
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.whitened import Whitened
from tacenda.engines import Workers
from tacenda.graph.topology import Topology
from tacenda.graph.tree import spanning_tree
from tacenda.planning.groups import GroupOption, group_options
from tacenda.planning.predict import predict
from tacenda.planning.reasons import hyperparameters, reasons
from tacenda.planning.trust import adversaries
from tacenda.planning.tune import tuned
from tacenda.planning.what_if import advice, what_if
from tacenda.privacy.accounting.calibration import gaussian_mu
from tacenda.privacy.accounting.curves import GaussianProfile
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.questions.moments import packed_length
from tacenda.terms.method import SETTINGS, Method
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.planning.predict import Prediction
    from tacenda.planning.trust import Adversary
    from tacenda.planning.what_if import Change

# Nine in ten of what was measured lay between so many times the formula's forecast
# (benchmarks/forecasts.py)
BELOW, ABOVE = 0.3, 45.0
DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


@dataclass(frozen=True)
class Forecast:
    """The planner's numbers: total step, noise of the average, both parts of the excess risk.

    Attributes
    ----------
    step : float
        Total step tau of the plan.
    wanted_step : float
        Total step that the budget could use.
    wanted_rounds : int
        Rounds that the budget could use.
    average_noise_std : float
        Standard deviation of the noise in the average model.
    left_undone : float
        Excess risk of stopping early.
    noise_risk : float
        Excess risk of the noise.
    second_eigenvalue : float
        Second largest eigenvalue of the mixing matrix.
    node_spread : float
        How far a node's score is from the average model's during the run, before the closing
        mixings.

    Examples
    --------
    >>> import tacenda as tc
    >>> forecast = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0).forecast
    >>> forecast.excess_risk == forecast.left_undone + forecast.noise_risk
    True
    """

    step: float
    wanted_step: float
    wanted_rounds: int
    average_noise_std: float
    left_undone: float
    noise_risk: float
    second_eigenvalue: float
    node_spread: float

    @property
    def excess_risk(self) -> float:
        """Expected objective above the noise-free optimum, for data of the assumed shape."""
        return self.left_undone + self.noise_risk

    @property
    def range(self) -> tuple[float, float]:
        """Where the excess risk of real data was in nine of ten measured cases.

        It is wide: the formula compares plans, and `Plan.predict` says more of the level.
        """
        return BELOW * self.excess_risk, ABOVE * self.excess_risk


@dataclass(frozen=True, eq=False)
class Plan:
    """Settings of one run, chosen from public facts alone.

    `tc.simulate(problem, graph, plan.method, privacy=...)` carries it out.

    Attributes
    ----------
    method : Method
        The algorithm with its rounds and all other settings.
    facts : Facts
        Public facts of the problem.
    topology : Topology
        The network.
    forecast : Forecast
        The numbers behind the choice.
    privacy : Privacy
        What was asked for: the budget, and against whom.
    coalition : int or None
        Members against whose combined knowledge the guarantee holds; None where no noise is
        shared.
    max_rounds : int
        Limit on rounds.
    fixed_rounds : bool
        Whether `rounds` was given.
    longer : float
        Multiplier of the total step.
    public_records : int or None
        Size of the public sample on which the step was tuned.

    Examples
    --------
    >>> import tacenda as tc
    >>> chosen = tc.plan(1000, 10, tc.graph.ring(5), epsilon=1.0)
    >>> chosen.method.output
    'average'
    """

    method: Method
    facts: Facts
    topology: Topology
    forecast: Forecast
    privacy: Privacy
    coalition: int | None = (
        None  # where neighbours share noise: how many curious members the promise holds against
    )
    max_rounds: int = 500
    fixed_rounds: bool = False
    longer: float = 1.0  # times the forecast's best total step, where a public sample asked for it
    public_records: int | None = None  # of the sample, declared public, on which the step was tuned

    @property
    def epsilon(self) -> Any:
        """The budget: one number, or one per node."""
        return self.privacy.epsilon

    @property
    def delta(self) -> float:
        """The delta of the guarantee."""
        return self.privacy.delta

    @property
    def promise(self) -> Privacy:
        """What a run of this plan promises."""
        return replace(self.privacy, coalition=self.coalition)

    @property
    def algorithm(self) -> Algorithm:
        """The method's algorithm."""
        return self.method.algorithm

    @property
    def rounds(self) -> int:
        """The method's number of rounds."""
        return self.method.rounds

    @property
    def sums(self) -> int:
        """Number of exact averages over a spanning tree; 0 where nodes mix instead.

        One for each round, one for the start, and one for the released moment, which may be a round
        of its own.
        """
        if not self.algorithm.traits.reaches_consensus:
            return 0
        return self.rounds + (1 if self.algorithm.needs.squared_loss else 2)

    @property
    def messages(self) -> int:
        """Messages between nodes.

        Two for each edge in each mixing, 2 (n - 1) for each exact average.
        """
        if self.sums:
            return 2 * (self.facts.n - 1) * self.sums
        mixings = self.rounds * self.algorithm.traits.exchanges_per_round
        edges = 2 * len(self.topology.edges)
        exact = 2 * (self.facts.n - 1) if self.method.ends_exactly else 0
        return edges * (mixings + self.method.closing_mixings) + exact

    @property
    def bytes(self) -> int:
        """Bytes of released values in all messages, in double precision."""
        if self.sums:
            numbers = self.facts.dim * (self.sums - 1) + self._moment
            return 8 * 2 * (self.facts.n - 1) * numbers
        return 8 * self.facts.dim * self.messages

    @property
    def _moment(self) -> int:
        """Numbers of a released second moment, with the labels where they are in it."""
        if isinstance(self.algorithm, Whitened):
            return self.algorithm.whitening.moment_numbers(self.facts, self.algorithm.algorithm)
        return packed_length(self.facts.n_features)

    @property
    def exchanges(self) -> int:
        """How often a node sends and waits.

        Once in each mixing; on a tree once for each level, up and down.
        """
        if self.sums:
            return 2 * spanning_tree(self.topology).depth * self.sums
        exact = 2 * spanning_tree(self.topology).depth if self.method.ends_exactly else 0
        mixings = self.rounds * self.algorithm.traits.exchanges_per_round
        return mixings + self.method.closing_mixings + exact

    def seconds(self, latency: float = 0.05, bytes_per_second: float = 1.25e6) -> float:
        """Time of a run over a real network, without its arithmetic.

        Each exchange waits once, and the busiest member sends its rows.

        latency: seconds that a message takes.
        """
        checks.positive("latency", latency, zero=True)
        rate = checks.positive("bytes_per_second", bytes_per_second)
        if self.sums:
            tree = spanning_tree(self.topology)
            busiest = 1 + float(np.diff(tree.children[0]).max(initial=0))
            numbers = self.facts.dim * (self.sums - 1) + self._moment
            # rows up the tree follow each other, and so do those down again
            return self.exchanges * latency + 2 * tree.depth * 8 * numbers * busiest / rate
        row = 8 * self.facts.dim * float(self.topology.degrees.max())
        return self.exchanges * (latency + row / rate)

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of the whole run, for the node with the largest budget."""
        return gaussian_mu(
            self.epsilon if isinstance(self.epsilon, float) else max(self.epsilon), self.delta
        )

    def privacy_curve(self, deltas: Sequence[float] = DELTAS) -> list[tuple[float, float]]:
        """Privacy curve of the whole run: one Gaussian mechanism of parameter mu.

        Result: pairs (delta, epsilon).
        """
        profile = GaussianProfile(self.mu)
        return [(float(d), profile.epsilon(checks.between("delta", d, 0.0, 1.0))) for d in deltas]

    def predict(
        self,
        public: Any = None,
        trials: int = 3,
        seed: int = 0,
        *,
        jobs: int = 1,
        engine: str = "loky",
        progress: str | bool = False,
        prevalence: float | None = None,
    ) -> Prediction:
        """Carry the plan out on stand-in data: excess risk and accuracy with a range.

        Parameters
        ----------
        public : (X, y) or None, default=None
            A public sample of the same kind of records.
        trials : int, default=3
            Number of runs.
        seed : int, default=0
            Of the stand-in data and the noise.
        jobs : int, default=1
            Number of processes; the result does not depend on it.
        engine : str, default="loky"
            Where the trials run: "loky" (processes of this machine), "dask://host:port",
            "ray://host:port" or "ray".
        progress : {"auto", True, False}, default=False
            Whether to show a progress bar; "auto" shows one on a terminal.
        prevalence : float or None, default=None
            The share of the second of two classes, where you know it; else several in turn.
        """
        workers = Workers.of(engine, jobs)
        return predict(self, public, trials, seed, workers, progress, prevalence)

    def tuned(self, public: Any, trials: int = 2, seed: int = 0) -> Plan:
        """The same plan with the total step that predicts best on a public sample.

        The sample must be public: it gets no protection, and nothing is charged for it.

        public: records of the same kind. trials: runs for each step that is tried.
        """
        return tuned(self, public, trials, seed)

    def what_if(self, trials: int = 0, public: Any = None, seed: int = 0) -> list[Change]:
        """What twice the budget, members or records, or a denser graph would change.

        trials: runs on stand-in data for each line; 0 compares forecasts. public: A public sample
        of the same kind of records. Result: the plan itself and its changes.
        """
        return what_if(self, trials, public, seed)

    def adversaries(self, most: int = 3) -> list[Adversary]:
        """What an eavesdropper and coalitions of members could learn.

        It shows who must not collude with whom.

        most: largest coalition that is looked at.
        """
        return adversaries(self, most)

    def group_options(self) -> list[GroupOption]:
        """What sums in several groups would cost, and how many liars they bear."""
        return group_options(self)

    def advice(self) -> str:
        """Where the next effort gains most, by the forecasts of `what_if`."""
        return advice(self.what_if())

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each choice."""
        return tuple(reasons(self))

    def explain(self) -> str:
        """The choice and its reasons in words.

        Result: a few lines of text.
        """
        k, f = self.facts.constants, self.forecast
        eps = f"{self.epsilon:g}" if isinstance(self.epsilon, float) else "one epsilon per node"
        head = [
            f"Plan for {counted(self.facts.n, 'node')}, "
            f"{counted(round(self.facts.records), 'record')}, "
            f"a model of length {self.facts.dim}, "
            f"({eps}, {self.delta:g}) {self.facts.adjacency}:",
            f"  algorithm       {self.algorithm.title}, {hyperparameters(self.algorithm)}, "
            "full gradients",
            f"  rounds          {self.rounds}, "
            + (
                "each with an exact average over a tree of the network"
                if self.sums
                else f"then {_closing(self.method)} at no cost of privacy"
            ),
            "  output          "
            + (
                "average of the last half of the models"
                if self.method.output == "average"
                else f"{self.method.output} iterate"
            ),
            f"  communication   {counted(self.messages, 'message')}, {self.bytes / 1e6:.1f} MB",
            f"  time            about {_duration(self.seconds())}, "
            "where an exchange takes 50 ms and a member sends 10 Mbit/s",
            f"  privacy         mu = {self.mu:.4g}; epsilon "
            + ", ".join(f"{e:.3g} at {d:g}" for d, e in self.privacy_curve()[1::2]),
            f"  excess risk     about {f.excess_risk:.3g} (left undone {f.left_undone:.2g}, "
            f"noise {f.noise_risk:.2g}); {f.range[0]:.2g} to {f.range[1]:.2g} in nine of ten "
            "measured runs",
            "Why:",
        ]
        assumed = (
            f"The forecast assumes typical data (scores of size {k.loss.typical.signal:g}, "
            f"eigenvalues falling like 1/sqrt(k), rows of norm near {k.data_norm:g}); "
            f"no {'' if self.public_records is None else 'private '}record was read."
        )
        return "\n".join([*head, *(f"  - {reason}" for reason in self.reasons), f"  - {assumed}"])

    def to_plain(self) -> dict[str, Any]:
        """Plain values for files.

        Result: numbers, strings, lists and dictionaries only.
        """
        return {
            **self.method.to_plain(),
            **self.promise.to_plain(),
            "longer": self.longer,
            "public_records": self.public_records,
            "messages": self.messages,
            "bytes": self.bytes,
            "seconds": self.seconds(),
            "mu": self.mu,
            "privacy_curve": [{"delta": d, "epsilon": e} for d, e in self.privacy_curve()],
            "forecast": {
                **asdict(self.forecast),
                "excess_risk": self.forecast.excess_risk,
                "range": list(self.forecast.range),
            },
            "reasons": list(self.reasons),
        }

    def __repr__(self) -> str:
        planned = [s.name for s in SETTINGS if s.planned]
        settings = ", ".join(f"{name}={getattr(self.method, name)!r}" for name in planned)
        return (
            f"Plan({self.algorithm.name}, {settings}, excess_risk~{self.forecast.excess_risk:.3g})"
        )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _closing(method: Method) -> str:
    if method.ends_exactly:
        return "one exact average"
    return counted(method.closing_mixings, "closing mixing")
