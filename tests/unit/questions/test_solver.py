"""The local solver: against SciPy, to the promised tolerance,
whatever the blocks and the history."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import quickly
import tacenda as tc
from tacenda import losses
from tacenda.errors import InputError, StateError, TacendaError, UnsupportedError
from tacenda.problem.problem import Problem
from tacenda.questions.blank import BlankQueries
from tacenda.questions.facts import Facts
from tacenda.questions.solver import local as solver

SIZES, P, N = (40, 25, 60), 5, 3
LOSSES = [losses.by_name(name) for name in losses.names()]
SMOOTH = [loss.name for loss in LOSSES if loss.smooth and not loss.stacked]


def make(loss, sparse=False, seed=0, dtype=np.float64, **more):
    rng, shards = np.random.default_rng(seed), []
    kind = losses.by_name(loss).kind
    for m in SIZES:
        x = rng.normal(size=(m, P))
        x = (x / np.linalg.norm(x, axis=1, keepdims=True) * 0.999).astype(dtype)
        s = x @ np.array([4.0, -2, 1, 0, 0]) + rng.normal(size=m)
        y = {
            "binary": np.where(s > 0, 1, -1),
            "regression": np.clip(2 * s, *losses.by_name(loss).label_range),
            "multiclass": np.digitize(s, [-1, 1]),
        }[kind]
        shards.append((sp.csr_matrix(x) if sparse else x, y))
    more = {"strength": 0.01, "loss_scale": 1.3} | more
    return Problem(shards, loss=loss, **more)


def terms(problem, seed=1):
    rng, shape = np.random.default_rng(seed), (N, problem.dim)
    return rng.normal(size=shape) * 0.2, np.array([[0.05], [0.5], [3.0]]), rng.normal(size=shape)


def gradient_at(problem, w, linear, quadratic, centre):
    return problem.store.gradient(np.arange(N), w) + linear + 2 * quadratic * (w - centre)


@pytest.mark.parametrize(
    ("matrix_free", "loss", "sparse"),
    quickly.cases(
        [(free, loss, csr) for free in (False, True) for loss in SMOOTH for csr in (False, True)],
        lambda case: (
            case[1] == "logistic" or case[1:] == ("multinomial", True) or not any(case[::2])
        ),
        id=lambda case: f"{'cg' if case[0] else 'chord'}-{case[1]}-{'csr' if case[2] else 'dense'}",
    ),
)
def test_argmin_against_scipy(loss, sparse, matrix_free, monkeypatch):
    if matrix_free:
        monkeypatch.setattr(solver, "uses_chords", lambda store: False)
    problem = make(loss, sparse)
    linear, quadratic, centre = terms(problem)
    w = problem.store.argmin(np.arange(N), linear, quadratic, centre, np.zeros_like(linear), 1e-10)
    assert (
        np.linalg.norm(gradient_at(problem, w, linear, quadratic, centre), axis=1).max() <= 1.01e-10
    )
    for i in range(N):

        def cost(v, i=i):
            values = problem.local_objectives(np.tile(v, (N, 1)))
            return values[i] + linear[i] @ v + quadratic[i, 0] * ((v - centre[i]) ** 2).sum()

        best = minimize(cost, w[i] + 0.1, method="BFGS", options={"gtol": 1e-7}).fun
        assert cost(w[i]) <= best + 1e-13


def test_squared_loss_has_a_closed_form():
    problem = make("squared")
    linear, quadratic, centre = terms(problem)
    w = problem.store.argmin(np.arange(N), linear, quadratic, centre, centre, 1e-11)
    for i in range(N):
        rows = slice(problem.store.offsets[i], problem.store.offsets[i + 1])
        x, y = problem.store.rows[rows], problem.store.labels[rows]
        matrix = 1.3 / len(y) * x.T @ x + (0.01 + 2 * quadratic[i, 0]) * np.eye(P)
        want = np.linalg.solve(
            matrix, 1.3 / len(y) * x.T @ y - linear[i] + 2 * quadratic[i, 0] * centre[i]
        )
        np.testing.assert_allclose(w[i], want, atol=1e-9)


@pytest.mark.parametrize("remember", [False, True], ids=["afresh", "remembered"])
@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "multinomial"])
def test_a_node_does_not_depend_on_its_block(loss, remember):
    together, apart = make(loss), make(loss)
    linear, quadratic, centre = terms(together)
    a = b = np.zeros_like(linear)
    for turn in range(6):
        q = quadratic * 1.1**turn
        a = together.store.argmin(np.arange(N), linear, q, centre + a, a, 1e-8, remember)
        b_new = np.empty_like(b)
        for block in ([2], [1, 0]):
            b_new[block] = apart.store.argmin(
                np.array(block),
                linear[block],
                q[block],
                centre[block] + b[block],
                b[block],
                1e-8,
                remember,
            )
        b = b_new
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("remember", [False, True], ids=["afresh", "remembered"])
def test_a_restored_cache_continues_bit_for_bit(remember):
    problem = make("logistic")
    linear, quadratic, centre = terms(problem)
    w = np.zeros_like(linear)

    def turns(target, w, first, last):
        for turn in range(first, last):
            w = target.store.argmin(
                np.arange(N), linear, quadratic, centre + 0.3 * turn * w, w, 1e-8, remember
            )
        return w

    middle = turns(problem, w, 0, 4)
    state = {name: part.copy() for name, part in problem.store.solver_state().items()}
    assert (state["ridges"] > 0).any() and ("memory" in state) == remember
    end = turns(problem, middle, 4, 8)
    resumed = make("logistic")
    resumed.store.restore_solver_state(state)
    np.testing.assert_array_equal(turns(resumed, middle, 4, 8), end)
    resumed.store.restore_solver_state({"anchors": np.zeros((0, P)), "ridges": np.zeros(0)})
    assert len(resumed.store.solver_state()["ridges"]) == 0
    for wrong in (
        {"anchors": np.zeros((2, P)), "ridges": np.zeros(2)},
        state | {"memory": np.zeros((N, 4, P + 1)), "known": np.ones(N)},
    ):
        with pytest.raises(StateError, match="must hold 3 nodes of dimension 5, and its '.*' has"):
            resumed.store.restore_solver_state(wrong)


@pytest.mark.parametrize("remember", [False, True], ids=["afresh", "remembered"])
def test_the_state_of_nodes_that_never_solved_joins_that_of_others(remember):
    """As ranks write one checkpoint together: those without a call have rows too, which say so."""
    solved, idle, whole = make("logistic"), make("logistic"), make("logistic")
    linear, quadratic, centre = terms(solved)
    nodes = np.array([0, 2])
    for problem in (solved, whole):
        problem.store.argmin(
            nodes, linear[nodes], quadratic[nodes], centre[nodes], centre[nodes], 1e-8, remember
        )
    assert len(idle.store.solver_state()["ridges"]) == 0
    of_all = idle.store.solver_state(kept=True, remembered=remember)
    state = solved.store.solver_state(kept=True, remembered=remember)
    assert set(of_all) == set(state) and ("memory" in state) == remember
    joined = {
        name: np.concatenate([rows[[0]], of_all[name][[1]], rows[[2]]])
        for name, rows in state.items()
    }
    idle.store.restore_solver_state(joined)
    more = [
        problem.store.argmin(np.arange(N), linear, quadratic, centre, centre, 1e-8, remember)
        for problem in (idle, whole)
    ]
    np.testing.assert_array_equal(*more)


def test_cache_anchors_are_starts_of_calls():
    """What a checkpoint holds is a start row, never an iterate from the middle of a solve."""
    problem = make("logistic")
    linear, quadratic, centre = terms(problem)
    starts, w = [], np.zeros_like(linear)
    for turn in range(8):
        starts.append(w)
        w = problem.store.argmin(
            np.arange(N), linear * (1 + turn) ** 2, quadratic * 1.3**turn, centre, w, 1e-8
        )
        state = problem.store.solver_state()
        for i in np.flatnonzero(state["ridges"] >= 0):
            assert any((state["anchors"][i] == start[i]).all() for start in starts)


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "huber", "squared"])
def test_remembered_ends_are_as_good_and_cost_fewer_passes(loss):
    """Terms that move a little from call to call, as in ADMM: every answer is within the tolerance
    by a gradient computed apart; a call never answers without a look at the records, nor where the
    terms jump."""
    apart, problems = make(loss), (make(loss), make(loss))
    linear, quadratic, centre = terms(apart)
    reads = [[], []]
    for turn in range(30):
        moved = linear * (1 + 0.5**turn + (5.0 if turn == 20 else 0.0))
        for k, problem in enumerate(problems):
            store = problem.store
            store.reads[:] = 0.0
            w = store.argmin(np.arange(N), moved, quadratic, centre, centre, 1e-9, k == 1)
            reads[k].append(store.reads[0] / sum(SIZES))
            rest = gradient_at(apart, w, moved, quadratic, centre)
            assert np.linalg.norm(rest, axis=1).max() <= 1.01e-9
    fresh, remembered = np.array(reads)
    assert remembered.min() >= 1.0  # the last one as well, whose terms are those before to 1e-9
    assert remembered[1:].sum() <= 0.75 * fresh[1:].sum()


def test_asked_the_same_again_it_reads_once_and_stays():
    problem = make("logistic")
    linear, quadratic, centre = terms(problem)

    def ask():
        return problem.store.argmin(np.arange(N), linear, quadratic, centre, centre, 1e-8, True)

    first = ask()
    problem.store.reads[:] = 0.0
    np.testing.assert_array_equal(ask(), first)
    assert problem.store.reads[0] == sum(SIZES)


def test_only_runs_without_privacy_remember():
    """The end of a call is an exact function of the records, and checkpoints hold what the solver
    keeps: under a budget that is where it started, public points."""
    problem, ring = make("logistic"), tc.graph.ring(N)
    algorithm = tc.algorithms.DVP(penalty=0.5)
    tc.simulate(problem, ring, algorithm, 3)
    assert {"memory", "known"} <= set(problem.store.solver_state())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the budget, which is of no interest here
        tc.simulate(problem, ring, algorithm, 3, tc.Privacy(epsilon=10.0), 0)
    assert (problem.store.solver_state()["ridges"] > 0).any()
    assert set(problem.store.solver_state()) == {"anchors", "ridges"}
    assert not problem.store.chords().memory.any()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 7, 130])
def test_kept_inverses_are_those_of_the_hessian(p, sparse):
    """Of every remainder of features and records; 600 records are more than are taken at once."""
    rng = np.random.default_rng(p)
    shards = []
    for m in (1, 600):
        x = rng.normal(size=(m, p))
        x /= 1.001 * np.linalg.norm(x, axis=1, keepdims=True)
        shards.append((sp.csr_matrix(x) if sparse else x, rng.choice([-1, 1], m)))
    problem = Problem(shards, loss_scale=1.3, strength=0.01, classes=(-1, 1))
    anchors, ridges = rng.normal(size=(2, p)), np.array([0.3, 0.02])
    problem.store.restore_solver_state({"anchors": anchors, "ridges": ridges})
    for i, (x, _) in enumerate(shards):
        x = x.toarray() if sparse else x
        share = 1 / (1 + np.exp(-(x @ anchors[i])))
        curved = 1.3 / len(x) * (x.T * (share * (1 - share))) @ x
        wanted = np.linalg.inv(curved + ridges[i] * np.eye(p))
        np.testing.assert_allclose(problem.store.chords().inverses[i], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "huber"])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_far_starts_and_extreme_penalties(loss, scale):
    problem = make(loss, strength=1e-5)
    linear, quadratic, centre = terms(problem)
    q = quadratic * scale
    for start in (np.zeros_like(linear), np.full_like(linear, 300.0)):
        w = problem.store.argmin(np.arange(N), 0.02 * linear, q, centre, start, 1e-8)
        assert (
            np.linalg.norm(gradient_at(problem, w, 0.02 * linear, q, centre), axis=1).max()
            <= 1.01e-8
        )


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_growing_penalties(dtype):
    problem = make("logistic", dtype=dtype)
    linear, quadratic, centre = terms(problem)
    w = np.zeros_like(linear)
    for turn in range(60):
        q = quadratic * 1.05**turn
        w = problem.store.argmin(np.arange(N), linear, q, centre, w, 1e-9)
        assert w.dtype == np.float64
        assert np.linalg.norm(gradient_at(problem, w, linear, q, centre), axis=1).max() <= 1.01e-9


def test_zero_curvature_without_regulariser():
    """No regulariser, no penalty, dependent columns: the Hessian is singular,
    the minimum still exists."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x = np.column_stack([x, x[:, 0]]) / 10
    problem = Problem([(x, rng.choice([0, 1], 50))], regulariser="none")
    w = problem.store.argmin(
        np.array([0]), np.zeros((1, 3)), np.zeros((1, 1)), np.zeros((1, 3)), np.zeros((1, 3)), 1e-9
    )
    assert np.linalg.norm(problem.store.gradient(np.array([0]), w)) <= 1.01e-9


def test_refusals():
    nodes, zero, q = np.arange(N), np.zeros((N, P)), np.ones((N, 1))
    with pytest.raises(UnsupportedError, match="smooth loss, and 'hinge' is not"):
        make("hinge").store.argmin(nodes, zero, q, zero, zero, 1e-8)
    with pytest.raises(UnsupportedError, match="smooth regulariser, and 'l1' is not"):
        make("logistic", regulariser="l1").store.argmin(nodes, zero, q, zero, zero, 1e-8)
    good = make("logistic").store
    with pytest.raises(InputError, match="tolerance must be a number above 0"):
        good.argmin(nodes, zero, q, zero, zero, 0.0)
    with pytest.raises(InputError, match="quadratic must hold numbers of at least 0"):
        good.argmin(nodes, zero, -q, zero, zero, 1e-8)
    with pytest.raises(InputError, match=r"linear must have shape \(3, 5\)"):
        good.argmin(nodes, np.zeros((2, P)), q, zero, zero, 1e-8)
    with pytest.raises(
        TacendaError, match="node 0 did not reach gradient norm tolerance=1e-30.*without privacy"
    ):
        make("squared").store.argmin(nodes, zero + 0.3, q, zero + 1.1, zero, 1e-30)


def test_a_bounded_loss_never_stops_a_run():
    """Below what floats can do, the answer is as good as they can; a run asks for more in vain only
    by its public settings."""
    nodes, zero, q = np.arange(N), np.zeros((N, P)), np.ones((N, 1))
    problem = make("logistic")
    w = problem.store.argmin(nodes, zero + 0.3, q, zero + 1.1, zero, 1e-30)
    rest = problem.store.gradient(nodes, w) + 0.3 + 2 * (w - 1.1)
    assert np.linalg.norm(rest, axis=1).max() < 1e-14
    with pytest.raises(InputError, match=r"solver_tolerance must be at least .* not 1e-30"):
        BlankQueries(Facts.of(problem, tolerance=1e-30)).argmin(zero, q, zero)


def test_separable_data_without_regulariser_is_an_error_not_a_hang():
    problem = Problem([(np.array([[1.0], [-1.0]]), [1, 0])], regulariser="none")
    zero = np.zeros((1, 1))
    with pytest.raises(TacendaError, match="minimum may not exist"):
        problem.store.argmin(np.array([0]), zero, zero, zero, zero, 1e-300)
