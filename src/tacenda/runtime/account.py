"""`account`: what a run would guarantee, from public facts alone."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike

from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.questions.facts import Facts
from tacenda.runtime.spec import RunSpec
from tacenda.terms.method import Method
from tacenda.terms.problem import DeclaredOptions

NOTHING_DRAWN = "none: nothing was drawn"


def account(
    sizes: ArrayLike,
    dim: int,
    graph: Any,
    method: Method,
    privacy: Privacy,
    *,
    n_outputs: int = 1,
    records_per_person: int = 1,
    members_per_person: int = 1,
    solver_tolerance: float = 1e-8,
    **declared: Unpack[DeclaredOptions],
) -> Statement:
    """Return what a run would guarantee, without carrying it out.

    The noise of a run never depends on its records, so this is the statement that the run itself
    would make.

    Parameters
    ----------
    sizes : array_like
        Public record counts, one per node of the graph, or one number for all.
    dim : int
        Length of a node's model (n_outputs * n_features for several classes), the intercept
        included.
    graph : networkx.Graph or Topology
        The network.
    method : Method
        The algorithm with its settings.
    privacy : Privacy
        The budget, or the noise itself (`Privacy.from_noise`, `Privacy.from_paper`).
    n_outputs : int, default=1
        Number of classes of a multinomial problem, else 1.
    records_per_person : int, default=1
        As in `Problem`.
    members_per_person : int, default=1
        As in `Problem`.
    solver_tolerance : float, default=1e-08
        As in `simulate`.
    **declared : object
        What is declared of the problem, as in `Problem`: `loss`, `regulariser`, `strength`,
        `data_norm`, `clip_norm`, `loss_scale` and the others.

    Raises
    ------
    InputError
        If a value is out of range, or parts do not go together.

    Examples
    --------
    >>> import tacenda as tc
    >>> paper = tc.Privacy.from_paper(epsilon=1.0, c0=1.0)
    >>> method = tc.Method(tc.algorithms.IPADMM(inner_steps=10), 100)
    >>> found = tc.accounting.account(452, 104, tc.graph.complete(100), method, paper)
    >>> found.claimed[0], round(found.epsilon, 3)
    (1.0, 0.751)
    """
    topology = Topology.of(graph)
    facts = Facts.declared(
        sizes,
        dim,
        topology.n,
        adjacency=privacy.adjacency,
        tolerance=solver_tolerance,
        records_per_person=records_per_person,
        members_per_person=members_per_person,
        classes=n_outputs,
        **declared,
    )
    spec = RunSpec.of(method, topology, facts, privacy)
    assert spec.calibration is not None
    statement = spec.statement(spec.calibration.reserved, NOTHING_DRAWN)
    assert statement is not None
    return statement
