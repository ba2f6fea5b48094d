"""`account`: what a run would guarantee, from public facts alone."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from tacenda.graph.topology import Topology
from tacenda.losses import Loss
from tacenda.privacy.settings import Privacy
from tacenda.privacy.statement import Statement
from tacenda.questions.facts import Facts
from tacenda.regularisers import Regulariser
from tacenda.runtime.spec import RunSpec
from tacenda.terms.method import Method

NOTHING_DRAWN = "none: nothing was drawn"


def account(
    sizes: ArrayLike,
    dim: int,
    graph: Any,
    method: Method,
    privacy: Privacy,
    *,
    loss: str | Loss = "logistic",
    regulariser: str | Regulariser | None = "l2",
    strength: float | str = 1e-4,
    data_norm: float = 1.0,
    clip_norm: float | None = None,
    loss_scale: float = 1.0,
    n_outputs: int = 1,
    records_per_person: int = 1,
    members_per_person: int = 1,
    solver_tolerance: float = 1e-8,
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
    loss : str or Loss, default="logistic"
        As in `Problem`.
    regulariser : str, Regulariser or None, default="l2"
        As in `Problem`.
    strength : float or "auto", default=0.0001
        As in `Problem`.
    data_norm : float, default=1.0
        As in `Problem`.
    clip_norm : float or None, default=None
        As in `Problem`.
    loss_scale : float, default=1.0
        As in `Problem`.
    n_outputs : int, default=1
        Number of classes of a multinomial problem, else 1.
    records_per_person : int, default=1
        As in `Problem`.
    members_per_person : int, default=1
        As in `Problem`.
    solver_tolerance : float, default=1e-08
        As in `simulate`.

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
        loss=loss,
        regulariser=regulariser,
        strength=strength,
        data_norm=data_norm,
        clip_norm=clip_norm,
        loss_scale=loss_scale,
        classes=n_outputs,
    )
    spec = RunSpec.of(method, topology, facts, privacy)
    assert spec.calibration is not None
    statement = spec.statement(spec.calibration.reserved, NOTHING_DRAWN)
    assert statement is not None
    return statement
