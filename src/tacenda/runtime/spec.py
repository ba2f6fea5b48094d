"""`RunSpec`: all that a run is, before any record is touched. Simulations, peers, audits and dry
runs all start from one.

of()           describe a run, with its defaults filled in; an error names what does not go
               together
of_problem()   the same, from the records and the graph that a caller has
calibration    the noise of every release, solved for the budget by rehearsing the run (once;
               `runtime.budget`)
statement()    what charges under this run guarantee
to_plain()     plain values, for files and reports
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda import checks
from tacenda._types import Array
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import private_names
from tacenda.content import content_hash
from tacenda.errors import InputError, UnsupportedError
from tacenda.graph.coalition import leverage
from tacenda.graph.cuts import cut_advice
from tacenda.graph.groups import Groups, group_words, grouped, proposed_groups
from tacenda.graph.topology import MIXINGS, Topology
from tacenda.losses.custom import CustomLoss
from tacenda.privacy.adjacency import check_persons
from tacenda.privacy.model_alone import LearningRun, model_alone
from tacenda.privacy.secrets.ledger import Charges
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.problem.problem import Problem
from tacenda.questions.facts import Facts
from tacenda.regularisers.custom import CustomRegulariser
from tacenda.terms.method import Method
from tacenda.terms.problem import DECLARED
from tacenda.terms.setting import AUTO

if TYPE_CHECKING:
    from tacenda.runtime.budget import Calibration

MOST_RECORDS = 1e8  # of a node whose number of records is not public
SYMMETRIC = "metropolis"  # mixing with these weights brings models no further apart as a whole


@dataclass(frozen=True, eq=False)
class RunSpec:
    """One method on one graph with public facts, under a budget (or none).

    row_type       the float type of models and messages
    losses         how many times a round may be made again, because a member was lost in it; all
                   of them are paid for beforehand
    """

    method: Method
    topology: Topology
    facts: Facts
    privacy: Privacy | None = None
    row_type: Any = np.float64
    losses: int = 0

    @classmethod
    def of(
        cls,
        method: Method,
        topology: Topology,
        facts: Facts,
        privacy: Privacy | None = None,
        **more: Any,
    ) -> RunSpec:
        """Describe a run and check it; `more` are the other fields."""
        return cls(method, topology, facts, privacy, **more).checked()

    @classmethod
    def of_problem(
        cls,
        method: Method,
        problem: Problem,
        graph: Any,
        privacy: Privacy,
        solver_tolerance: float = 1e-8,
    ) -> RunSpec:
        """Describe and check a private run whose records are all here, in float64."""
        tolerance = checks.positive("solver_tolerance", solver_tolerance)
        facts = Facts.of(problem, privacy.adjacency, tolerance)
        return cls.of(method, match(problem, graph), facts, privacy)

    @property
    def algorithm(self) -> Algorithm:
        return self.method.algorithm

    @property
    def rounds(self) -> int:
        return self.method.rounds

    def changed(self, **settings: Any) -> RunSpec:
        """The same run with other settings of its method."""
        return replace(self, method=replace(self.method, **settings))

    def checked(self) -> RunSpec:
        """This run with its defaults filled in; an error where its parts do not go together."""
        facts, method = self.facts, self.method.checked(self.topology)
        algorithm = method.algorithm
        privacy = check_privacy(self.privacy, algorithm)
        if privacy is not None:
            person = facts.records_per_person, facts.members_per_person
            check_persons(facts.adjacency, *person, facts.exactly)
            if privacy.mode == "as-published" and person != (1, 1):
                raise UnsupportedError(
                    "mode must be 'sound' for persons with several records, not 'as-published': "
                    "the papers' formulas are about single records."
                )
        if privacy is not None and privacy.mode == "as-published":
            algorithm = algorithm.published_form()
            if self.method.output is None:
                method = replace(method, output=algorithm.default_output)
        if privacy is not None and privacy.node_noise == "worst":
            facts = facts.for_the_smallest()
        if not isinstance(method.mixing, str) and not algorithm.traits.mixes_only:
            raise UnsupportedError(
                f"{algorithm.title} does not mix models by a matrix, so mixing must be one of "
                f"{', '.join(map(repr, MIXINGS))}, not edges that vary; use DDA, DPDDA or GossipGD."
            )
        method = self._checked_groups(method, algorithm, privacy)
        algorithm.node_kinds(self.topology.n)  # refuses values for another number of nodes
        algorithm.check(facts, self.topology, method.rounds, privacy is not None)
        if (
            privacy is not None
            and privacy.node_kinds(self.topology.n).size
            and algorithm.traits.shared_noise is not None
        ):
            raise UnsupportedError(
                f"{algorithm.title} shares noise between neighbours, who must draw alike: spread "
                "must be one for all nodes, not one for each; or use noise='independent'."
            )
        # Exact minimisers are computed in float64 whatever the records are.
        row_type = np.dtype(float if algorithm.needs.smooth_loss else self.row_type)
        return replace(
            self, method=replace(method, algorithm=algorithm), facts=facts, row_type=row_type
        )

    def _checked_groups(
        self, method: Method, algorithm: Algorithm, privacy: Privacy | None
    ) -> Method:
        """The method with a number of groups, which fits the rest."""
        n, takes = self.topology.n, privacy is not None and algorithm.traits.joins_groups
        if method.groups == AUTO:
            pooled = privacy.pooled(algorithm.title) if takes and privacy is not None else 0
            method = replace(method, groups=proposed_groups(n, pooled) if takes else 1)
        if method.groups == 1:
            return method
        if not takes:
            why = (
                "a run without privacy masks nothing"
                if privacy is None
                else f"{algorithm.title} makes none that a rule could join"
            )
            raise UnsupportedError(
                f"groups must be 1, not {method.groups}: groups are of masked sums, and {why}. "
                "Leave groups out, or use TreeGD or MomentRegression with masked noise and no "
                "table beside them."
            )
        check_group_count(method, n)
        if method.closing_mixings:
            raise UnsupportedError(
                f"groups must be 1 with {method.closing_mixings} closing mixings, not "
                f"{method.groups}: in a mixing a liar moves its neighbours' models as far as it "
                'likes; use finish_mixing=0 or "exact".'
            )
        return method

    @cached_property
    def groups(self) -> Groups | None:
        """The groups of the members; None where one sum is made of all."""
        return self.groups_in(self.topology)

    def groups_in(self, topology: Topology) -> Groups | None:
        """The groups of those who are in a graph, such as that of the members who remain."""
        count = self.method.groups
        if count in (1, AUTO) or self.privacy is None:
            return None
        return grouped(topology, int(count), self.privacy.pooled(self.algorithm.title))

    @property
    def masks_graph(self) -> Topology:
        """The graph on whose edges neighbours share noise or masks."""
        return self.topology if self.groups is None else self.groups.masks

    def leverage(self, coalition: int | None = None) -> tuple[Array, str]:
        """`graph.coalition.leverage` of noise that neighbours share, in groups where there are
        any."""
        ratio = self.algorithm.traits.shared_noise
        assert ratio is not None and self.privacy is not None
        q = self.privacy.pooled(self.algorithm.title) if coalition is None else coalition
        if self.groups is not None:
            return self.groups.leverage(q)
        return leverage(self.topology, ratio, q)

    @cached_property
    def calibration(self) -> Calibration | None:
        """The noise of every node and the charges that the run will make; None without privacy."""
        from tacenda.runtime.budget import calibrate

        return None if self.privacy is None else calibrate(self)

    @property
    def weights(self) -> Array:
        """(rounds,) each round's share of the budget, 1 on average; (rounds, n) where the nodes
        differ."""
        return np.ones(self.rounds) if self.privacy is None else self.privacy.weights(self.rounds)

    def advice(self) -> list[str]:
        """Warnings about settings that may not converge."""
        return self.algorithm.advice(self.facts, self.topology, self.rounds)

    def group_words(self) -> str:
        """What groups cost, in words; nothing where there are none."""
        if self.groups is None or self.privacy is None:
            return ""
        return group_words(self.groups, self.privacy.pooled(self.algorithm.title))

    def cut_advice(self) -> list[str]:
        """What a graph costs that leaves a masked run too few members to hide among."""
        if self.privacy is None or not self.algorithm.traits.masks:
            return []
        assert self.calibration is not None and self.calibration.plan.leverage is not None
        pooled = self.privacy.pooled(self.algorithm.title)
        parts = [self.topology] if self.groups is None else self.groups.parts
        said = []
        for part in parts:
            own = leverage(part, math.inf, pooled)[0]
            said += cut_advice(part, pooled, round(1 / float(own.max())))
        if said and self.groups is not None:
            said = [f"in {len(said)} of {len(parts)} groups {said[0]}"]
        return said

    def statement(
        self, charges: Charges, noise: str, n_nodes: int | None = None, start: Array | None = None
    ) -> Statement | None:
        """What these charges guarantee under the run's budget;
        `noise` says how it was drawn. start: where the models began, 0 by default. None without
        privacy."""
        if self.privacy is None or self.calibration is None:
            return None
        p, found = self.privacy, self.calibration
        return Statement(
            charges,
            self.topology.n if n_nodes is None else n_nodes,
            p.delta,
            p.adjacency,
            p.mode,
            p.plain_noise() if p.noise else p.to_plain()["epsilon"],
            noise,
            p.spread if isinstance(p.spread, str) else "as given",
            found.claimed,
            found.why,
            None if n_nodes is not None else model_alone(self._learning(start), charges),
            self.facts.records_per_person,
            self.facts.members_per_person,
            self.facts.one_record,
            groups=1 if self.groups is None else self.groups.count,
        )

    def _learning(self, start: Array | None) -> LearningRun:
        """What is public about how the final model comes about."""
        algorithm, facts, k = self.algorithm, self.facts, self.facts.constants
        descent = algorithm.descent(facts, self.rounds, self.method.output or "last")
        symmetric = self.method.mixing == SYMMETRIC
        largest = float(facts.sizes.max()) if facts.true_sizes else MOST_RECORDS
        return LearningRun(
            rounds=self.rounds,
            dim=facts.dim,
            only_means=algorithm.traits.exact_means_only,
            descent=descent if algorithm.traits.exact_means_only or symmetric else None,
            sensitivity=facts.gradient_sensitivity(),
            largest_message=lambda noise: algorithm.largest_mean(facts, largest, noise),
            gradient_bound=k.gradient_bound,
            loss_scale=k.loss_scale,
            smoothness=k.loss_smoothness,
            radius=k.radius,
            largest_size=float(facts.sizes.max()),
            start=0.0 if start is None else float(max(start.max(), -start.min())),
            float_spacing=float(np.finfo(self.row_type).eps),
        )

    @property
    def one_model(self) -> bool:
        """Whether all nodes end with the same model, to the bit."""
        return self.algorithm.traits.reaches_consensus or self.method.ends_exactly

    def identity(self) -> dict[str, str]:
        """A hash of each part by its content, code of plugins included:
        what tells two runs apart."""
        graph, k = self.topology, self.facts.constants
        parts = {
            "algorithm": self.algorithm,
            "privacy": self.privacy,
            "graph": (graph.n, graph.plain_labels(), graph.edges),
            "problem": (self.to_plain()["problem"], k.loss, k.regulariser),
            "solver_tolerance": self.facts.tolerance,
            **self.method.naming(),
        }
        return {name: content_hash(value, name) for name, value in parts.items()}

    def _unit(self) -> dict[str, int]:
        """The unit, where it is a person, or a record of several rows; nothing for a record of one,
        whose runs keep their identity."""
        k, q = self.facts.records_per_person, self.facts.members_per_person
        if self.facts.one_record:
            return {"rows_each": k}
        return {} if k * q == 1 else {"records_per_person": k, "members_per_person": q}

    def to_plain(self) -> dict[str, Any]:
        """Plain values that describe the run, and arrays of what there is one of for each node or
        edge; the sizes are the public ones."""
        k, t = self.facts.constants, self.topology
        return {
            **self.method.to_plain(),
            "privacy": None if self.privacy is None else self.privacy.to_plain(),
            "graph": {"name": t.name, "n": t.n, "labels": t.plain_labels(), "edges": t.edges},
            "solver_tolerance": self.facts.tolerance,
            "problem": {
                **{s.name: getattr(k, s.name) for s in DECLARED if s.names_run},
                "loss": k.loss.name,
                "regulariser": k.regulariser.name,
                "auto_strength": k.auto_strength,
                "loss_options": _options(k.loss, self.facts.dim),
                "regulariser_options": _options(k.regulariser, self.facts.dim),
                "sizes": (self.facts.sizes / self.facts.rows_each).astype(np.int64),
                "n_features": self.facts.dim // k.n_outputs - self.facts.rows_each + 1,
                "n_outputs": k.n_outputs,
                **self._unit(),
            },
        }


def _options(part: Any, dim: int) -> dict[str, Any]:
    """The settings of a loss or a regulariser."""
    if isinstance(part, CustomLoss):
        return {"digest": part.digest}
    if isinstance(part, CustomRegulariser):
        return {"digest": part.digest(dim)}
    return dataclasses.asdict(part)


def check_privacy(privacy: Any, algorithm: Algorithm) -> Privacy | None:
    """The budget, if the algorithm can keep one."""
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise InputError(f"privacy must be a tacenda.Privacy or None, not {privacy!r}.")
    if not algorithm.private:
        raise UnsupportedError(
            f"{algorithm.title} adds no noise, so it cannot keep a privacy budget; "
            f"the private algorithms are {', '.join(private_names())}. "
            "For a run without privacy pass privacy=None (in the shell: --no-privacy)."
        )
    if algorithm.traits.shared_noise is not None:
        privacy.pooled(algorithm.title)
    return privacy


def check_group_count(method: Method, members: int) -> None:
    """Refuse more groups than there are members, or than remain of them."""
    if int(method.groups) > members:
        raise UnsupportedError(
            f"groups must be at most the number of members ({members}), not {method.groups}."
        )


def match(problem: Problem, graph: Any) -> Topology:
    """The graph's topology, if it has one node for each shard;
    shards named by label are matched by name."""
    topology = Topology.of(graph)
    if topology.n != problem.n_nodes:
        raise InputError(
            f"graph must have one node per shard: {topology.n} nodes, but {problem.n_nodes} shards."
        )
    labels = problem.node_labels
    if labels is not None and list(labels) != list(topology.labels):
        raise InputError(
            "The shards' labels must be the graph's nodes, in the graph's order; build the dict as "
            "{node: shard for node in Topology.of(graph).labels}."
        )
    return topology


def start_rows(init: Any, dim: int, n: int) -> Array:
    """(n, d) the public starting point."""
    if init is None:
        return np.zeros((n, dim))
    rows = np.asarray(init, float)
    if rows.size == dim:
        rows = np.broadcast_to(rows.reshape(1, dim), (n, dim))
    elif rows.size == n * dim:
        rows = rows.reshape(n, dim)
    else:
        raise InputError(
            f"init must be one model of length {dim} or one per node ({n}), "
            f"not of shape {rows.shape}."
        )
    if not np.isfinite(rows).all():
        raise InputError("init must hold finite numbers only.")
    return np.array(rows)
