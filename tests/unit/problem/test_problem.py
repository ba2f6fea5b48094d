"""Problem: reading shards, labels, diagnostics, the reference optimum."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from tacenda import losses
from tacenda.errors import TacendaError
from tacenda.problem.problem import Problem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) / 10
Y = np.where(X @ [5.0, -3.0, 1.0] + 0.3 * RNG.normal(size=40) > 0, 1, 0)
CUTS = [slice(0, 10), slice(10, 16), slice(16, 40)]


def pairs(x=X, y=Y):
    return [(x[s], y[s]) for s in CUTS]


def test_what_a_problem_knows():
    problem = Problem(dict(zip("abc", pairs(), strict=True)), strength=0.1, clip_norm=0.4)
    assert (problem.n_nodes, problem.n_features, problem.n_outputs, problem.dim) == (3, 3, 1, 3)
    assert problem.node_labels == ("a", "b", "c") and problem.classes == (0, 1)
    assert Problem(pairs()).node_labels is None
    np.testing.assert_array_equal(problem.sizes, [10, 6, 24])
    assert problem.dtype == np.float64 and problem.public_sizes is None
    assert problem.constants.gradient_bound == 0.4
    assert repr(problem) == (
        "Problem(n_nodes=3, n_features=3, n_outputs=1, loss='logistic', regulariser='l2', "
        "strength=0.1, loss_scale=1, data_norm=1, clip_norm=0.4, radius=1e+09)"
    )


def test_labels_are_mapped():
    for y, classes in (
        (Y, (0, 1)),
        (Y == 1, (False, True)),
        (np.where(Y, "yes", "no"), ("no", "yes")),
        (2.5 * Y, (0, 2.5)),
    ):
        problem = Problem(pairs(y=y))
        assert problem.classes == classes
        np.testing.assert_array_equal(problem.store.labels, 2 * Y - 1)
    turned = Problem(pairs(), classes=(1, 0))
    assert turned.classes == (1, 0)
    np.testing.assert_array_equal(turned.store.labels, 1 - 2 * Y)
    text = np.where(Y, "yes", "no").astype(object)
    np.testing.assert_array_equal(Problem(pairs(y=text)).store.labels, 2 * Y - 1)
    three = Problem(pairs(y=np.arange(40) % 3 * 10), loss="multinomial")
    assert three.classes == (0, 10, 20) and three.n_outputs == 3 and three.dim == 9
    np.testing.assert_array_equal(three.store.labels, np.arange(40) % 3)


def test_one_sided_nodes_are_fine():
    """A node may hold one class only; the label set is that of the network."""
    problem = Problem([(X[:2], [0, 0]), (X[2:4], [1, 1])])
    np.testing.assert_array_equal(problem.store.labels, [-1, -1, 1, 1])


def test_consecutive_views_are_not_copied():
    problem = Problem(pairs())
    assert np.shares_memory(problem.store.rows, X)
    np.testing.assert_array_equal(problem.store.rows, X)
    shuffled = Problem([pairs()[2], pairs()[0], pairs()[1]])
    assert not np.shares_memory(shuffled.store.rows, X)
    np.testing.assert_array_equal(shuffled.store.rows, np.concatenate([X[16:], X[:16]]))
    gap = Problem([(X[:10], Y[:10]), (X[11:], Y[11:])])
    np.testing.assert_array_equal(gap.store.rows, np.delete(X, 10, axis=0))
    columns = Problem([(np.asfortranarray(X), Y)])
    np.testing.assert_array_equal(columns.store.rows, X)


def test_peak_memory_is_bounded():
    x = np.random.default_rng(1).normal(size=(40_000, 50)) / 50
    y = np.arange(40_000) % 2
    cuts = np.array_split(np.arange(40_000), 20)
    views, loose = [(x[c[0] : c[-1] + 1], y[c]) for c in cuts], [(x[c], y[c]) for c in cuts]
    for shards, limit in ((views, 0.5), (loose, 1.5)):  # on top of the user's own copy
        tracemalloc.start()
        Problem(shards)
        assert tracemalloc.get_traced_memory()[1] <= limit * x.nbytes
        tracemalloc.stop()


def test_many_kinds_of_tables():
    pandas = pytest.importorskip("pandas")
    frames = [(pandas.DataFrame(x), pandas.Series(y)) for x, y in pairs()]
    np.testing.assert_array_equal(Problem(frames).store.rows, X)
    assert Problem([(X[:2].tolist(), [0, 1])]).n_features == 3
    assert Problem([(np.eye(3, dtype=int), [0, 1, 1])]).dtype == np.float64
    assert Problem(pairs(X.astype(np.float32))).dtype == np.float32
    mixed = Problem([(X[:3].astype(np.float32), Y[:3]), (X[3:], Y[3:])])
    assert mixed.dtype == np.float64


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.coo_array])
def test_sparse_tables(kind):
    problem = Problem([(kind(x), y) for x, y in pairs()])
    w = np.array([1.0, 2.0, -1.0])
    assert problem.objective(w) == pytest.approx(Problem(pairs()).objective(w), rel=1e-14)


def test_duplicate_entries_of_a_sparse_row_count_together():
    """Two entries of 0.6 at one place are 1.2: above the bound, although each alone and their
    squares are below."""
    x = sp.csr_matrix(
        (np.array([0.6, 0.6, 0.1]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    with pytest.raises(TacendaError, match="norm is above data_norm=1"):
        Problem([(x, [0, 1])])
    assert x.nnz == 3  # the user's matrix is untouched


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_rows_are_scaled_on_request(sparse, dtype):
    x = (X * 12).astype(dtype)
    before = x.copy()
    shards = [(sp.csr_matrix(a) if sparse else a, y) for a, y in pairs(x)]
    with pytest.raises(
        TacendaError,
        match=r"Node \d has a row of X whose norm is above data_norm=1; .*on_large_rows",
    ):
        Problem(shards)
    problem = Problem(shards, on_large_rows="scale")
    norms = np.linalg.norm(before, axis=1)
    np.testing.assert_allclose(problem.store.norms, np.minimum(norms, 1.0), rtol=1e-6)
    assert problem.store.norms.max() <= problem.constants.data_norm * (1 + 1e-9)
    np.testing.assert_array_equal(x, before)


def bad(x=X, y=Y):
    return [(X[:5], Y[:5]), (x, y)]


NAN = X.copy()
NAN[3, 1] = np.nan


@pytest.mark.parametrize(
    ("shards", "more", "words"),
    [
        ([], {}, "at least one node"),
        ("no", {}, "list of pairs"),
        ([X], {}, "Node 0 holds ndarray"),
        (bad(y=Y[:3]), {}, "Node 1 has 40 rows in X and 3 labels"),
        (bad(X[:0], Y[:0]), {}, "Node 1 has no records"),
        (bad(X[:, :2]), {}, "has 2 features and the first node's has 3"),
        (bad(X[:, 0]), {}, "two axes"),
        (bad(X[:, :0]), {}, "at least one feature"),
        (bad(sp.csr_matrix(X)), {}, "must be dense like the first"),
        (bad(X + 1j), {}, "must hold real numbers, not complex128"),
        (bad(X.astype(str) + "x"), {}, "must hold real numbers"),
        (bad(NAN), {}, "Node 1: column 1 of X holds NaN or infinity"),
        ([(sp.csr_matrix(NAN), Y)], {}, "Node 0: column 1 of X holds NaN"),
        ({"here": (NAN, Y)}, {}, "Node 'here': column 1"),
        (bad(X * 1e300), {}, "norm overflows"),
        (bad(y=np.column_stack([Y, Y])), {}, "y must have one axis"),
        (bad(y=np.where(Y, 1.0, np.nan)), {}, "Node 1: y holds NaN"),
        (bad(y=np.where(Y, 1.0, np.inf)), {"loss": "huber"}, "Node 1: y holds NaN or infinity"),
        (bad(y=np.where(Y, "a", "b")), {}, "labels of one type at all nodes"),
        (bad(y=np.where(Y, "a", "b")), {"loss": "squared"}, "real numbers for a regression"),
        (bad(y=np.array(["a", None] * 20, dtype=object)), {}, "without missing values"),
        (bad(y=np.arange(40)), {}, "exactly two label values.*multinomial"),
        ([(X, np.ones(40))], {}, r"exactly two label values.*classes=\(negative, positive\)"),
        ([(X, np.ones(40))], {"loss": "multinomial"}, "two or more"),
        (pairs(), {"classes": (0, 2)}, "not one of the 2 declared classes"),
        (pairs(), {"classes": (0, 1, 2)}, "classes declares 3"),
        (pairs(), {"classes": (0, 0)}, "different labels"),
        (pairs(), {"loss": "squared", "classes": (0, 1)}, "leave it out"),
        (pairs(), {"loss": "logit"}, "Did you mean 'logistic'"),
        (pairs(), {"regulariser": "elastic"}, "Did you mean 'elastic-net'"),
        (pairs(), {"strength": -1}, "strength must be a number of at least 0"),
        (pairs(), {"loss_scale": 0}, "loss_scale must be a number above 0"),
        (pairs(), {"data_norm": 0}, "data_norm must be"),
        (pairs(), {"clip_norm": -2}, "clip_norm must be"),
        (pairs(), {"on_large_rows": "clip"}, "on_large_rows must be one of"),
        (pairs(), {"public_sizes": [1, 2]}, "one per node"),
        (
            pairs(),
            {"public_sizes": [1, 2, 0]},
            "public_sizes must be a number from 1e-09 to 1e.15 or one per node",
        ),
        (pairs(), {"public_sizes": 1e-300}, "public_sizes must be a number from"),
        (pairs(), {"radius": 0}, "radius must be a number above 0"),
        (pairs(), {"radius": 1e300}, "radius must be between 1e-09 and 1e.15"),
        (pairs(), {"data_norm": 1e300}, "data_norm must be between 1e-09 and 1e.09"),
        (pairs(), {"clip_norm": 1e-300}, "clip_norm must be between"),
        (pairs(), {"loss_scale": 1e300}, "loss_scale must be between"),
        (pairs(), {"strength": 1e300}, "strength must be between"),
        (
            pairs(),
            {"loss": losses.SmoothedHinge(1e-200)},
            "parameter of SmoothedHinge must be between",
        ),
    ],
)
def test_bad_input_gets_one_helpful_sentence(shards, more, words):
    with pytest.raises(TacendaError, match=words) as caught:
        Problem(shards, **more)
    assert "\n" not in str(caught.value) and str(caught.value).endswith((".", "?"))
    assert "nan" not in str(caught.value).replace("NaN", "")


def test_objective_by_hand():
    problem = Problem(pairs(), strength=0.3, loss_scale=2.0)
    w = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    y = 2.0 * Y - 1
    parts = [
        np.mean([np.log1p(np.exp(-y[j] * X[j] @ w[0])) for j in range(*s.indices(40))])
        for s in CUTS
    ]
    want = 2.0 * np.mean(parts) + 0.15 * w[0] @ w[0]
    np.testing.assert_allclose(problem.objective(w), [want, 2 * np.log(2)], rtol=1e-14)
    assert isinstance(problem.objective(w[0]), float)
    local = problem.local_objectives(np.tile(w[0], (3, 1)))
    np.testing.assert_allclose(local, 2.0 * np.array(parts) + 0.15 * w[0] @ w[0], rtol=1e-14)
    assert problem.loss_of(w[0]) == pytest.approx(
        np.mean(np.log1p(np.exp(-y * (X @ w[0])))), rel=1e-14
    )
    assert problem.accuracy(w[0]) == np.mean((X @ w[0] >= 0) == (Y == 1))
    np.testing.assert_array_equal(problem.predict_scores(X, w[0]), X @ w[0])
    assert Problem(pairs(), loss="squared").accuracy(w[0]) is None
    with pytest.raises(TacendaError, match=r"w must have shape \(3,\)"):
        problem.objective(np.zeros(4))


def test_reference_against_scikit_learn():
    from sklearn.linear_model import Lasso, LogisticRegression

    one = Problem([(X, Y)], strength=0.05)
    theirs = LogisticRegression(
        C=1 / (0.05 * 40), fit_intercept=False, tol=1e-12, max_iter=1000
    ).fit(X, Y)
    np.testing.assert_allclose(one.solve(), theirs.coef_[0], atol=1e-7)
    targets = X @ [2.0, 0.0, -1.0] + 0.01 * Y
    lasso = Problem([(X, targets)], loss="squared", regulariser="l1", strength=1e-3)
    theirs = Lasso(alpha=1e-3, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, targets)
    np.testing.assert_allclose(lasso.solve(), theirs.coef_, atol=1e-8)
    labels = np.digitize(targets, [-0.1, 0.1])
    many = Problem([(X, labels)], loss="multinomial", strength=0.02)
    theirs = LogisticRegression(
        C=1 / (0.02 * 40), fit_intercept=False, tol=1e-12, max_iter=5000
    ).fit(X, labels)
    np.testing.assert_allclose(many.solve().reshape(3, 3), theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("regulariser", ["none", "l2", "l1", "elastic-net"])
@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_reference_is_optimal(loss, regulariser, sparse):
    """No small move in any of many directions lowers the objective."""
    kind, rng = losses.by_name(loss).kind, np.random.default_rng(3)
    y = {
        "binary": Y,
        "regression": X @ [9.0, 0, 0] + rng.normal(size=40),
        "multiclass": np.arange(40) % 3,
    }[kind]
    y = y if kind != "regression" else np.clip(y, *losses.by_name(loss).label_range)
    y = np.arange(40) % 5 if getattr(losses.by_name(loss), "stacked", False) else y
    shards = [(sp.csr_matrix(a) if sparse else a, b) for a, b in pairs(X, y)]
    problem = Problem(shards, loss=loss, regulariser=regulariser, strength=0.01, loss_scale=3.0)
    w = problem.solve(1e-9)
    moves = rng.normal(size=(200, problem.dim))
    moves = np.concatenate([moves, np.eye(problem.dim), -np.eye(problem.dim)])
    for size in (1e-4, 1e-2, 1.0):
        assert (problem.objective(w + size * moves) >= problem.objective(w) - 2e-9).all()
    if losses.by_name(loss).smooth and regulariser in ("none", "l2"):
        mean = problem.store.gradient(np.arange(3), np.tile(w, (3, 1))).mean(axis=0)
        assert np.linalg.norm(mean) <= 1.01e-9


def test_reference_that_does_not_exist_is_an_error():
    with pytest.raises(TacendaError, match="tolerance=1e-300"):
        Problem([(np.array([[1.0], [-1.0]]), [1, 0])], regulariser="none").solve(1e-300)
