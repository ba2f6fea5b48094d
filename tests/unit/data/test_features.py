"""Row norms and the constant feature, dense and CSR, against plain NumPy."""

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix

from tacenda.data import features
from tacenda.errors import InputError

ROWS = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.3, 0.0, 0.4], [0.0, -2.0, 0.0]])


@pytest.mark.parametrize("form", [np.asarray, csr_matrix, coo_matrix])
def test_clip_and_scale_by_hand(form):
    dense = lambda X: X.toarray() if features.is_sparse(X) else X  # noqa: E731
    clipped = dense(features.scale_rows(form(ROWS), 1.0))
    np.testing.assert_allclose(clipped, [[0.6, 0.8, 0], [0, 0, 0], [0.3, 0, 0.4], [0, -1, 0]])
    scaled = dense(features.scale_rows(form(ROWS), 2.0, mode="scale"))
    np.testing.assert_allclose(scaled, [[1.2, 1.6, 0], [0, 0, 0], [1.2, 0, 1.6], [0, -2, 0]])
    np.testing.assert_allclose(features.row_norms(form(ROWS)), [5, 0, 0.5, 2])


def test_copies_unless_in_place():
    X = ROWS.copy()
    features.scale_rows(X)
    np.testing.assert_array_equal(X, ROWS)
    assert features.scale_rows(X, in_place=True) is X
    assert X[0, 0] == pytest.approx(0.6)
    S = csr_matrix(ROWS)
    assert features.scale_rows(S).data is not S.data and S.data[0] == 3.0
    assert features.scale_rows(S, in_place=True) is S


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_chunks_keep_the_bound_and_the_precision(monkeypatch, dtype):
    monkeypatch.setattr(features, "CHUNK_BYTES", 1000)
    X = np.random.default_rng(0).standard_normal((500, 7)).astype(dtype)
    out = features.scale_rows(X, 1.0)
    assert out.dtype == dtype
    assert np.linalg.norm(out.astype(np.float64), axis=1).max() <= 1 + 4 * np.finfo(dtype).eps
    assert len(features.chunks(X)) > 10
    np.testing.assert_allclose(
        features.row_norms(X), np.linalg.norm(X.astype(np.float64), axis=1), rtol=1e-12
    )


def test_intercept_is_the_last_column():
    np.testing.assert_array_equal(features.add_intercept(ROWS, 2.0)[:, -1], 2.0)
    S = features.add_intercept(csr_matrix(ROWS.astype(np.float32)))
    assert S.shape == (4, 4) and S.dtype == np.float32 and S.format == "csr"
    np.testing.assert_array_equal(S.toarray()[:, :3], ROWS.astype(np.float32))
    assert features.add_intercept(np.ones((2, 2), int)).dtype == np.float64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: features.scale_rows(ROWS, 0.0), "norm must be"),
        (lambda: features.scale_rows(ROWS, 1.0, mode="cut"), "mode must be one of"),
        (lambda: features.scale_rows(np.array([[1.0], [np.nan]])), "row 1 is not"),
        (
            lambda: features.scale_rows(np.ones((2, 2), int), in_place=True),
            "in_place needs a floating-point",
        ),
        (lambda: features.scale_rows(coo_matrix(ROWS), in_place=True), "CSR matrix, not coo"),
    ],
)
def test_errors(call, words):
    with pytest.raises(InputError, match=words):
        call()
