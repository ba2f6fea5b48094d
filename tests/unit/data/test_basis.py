"""Hat functions, their smoothness prior, and the norm that no block exceeds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from tacenda.data.basis import SMOOTHNESS, Hats, differences, pair_smoother, products, smoother

UNEVEN = Hats(np.array([0.0, 1.0, 1.5, 4.0, 10.0]))
BASES = {
    "even": Hats.evenly(-2.0, 5.0, 9),
    "two": Hats.evenly(0.0, 1.0, 2),
    "uneven": UNEVEN,
    "around": Hats.around(24.0, 8),
}


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_hats_interpolate_values_at_the_knots(basis: Hats) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=len(basis.knots))
    x = rng.uniform(basis.knots[0], basis.knots[-1], 200)
    found = basis(x) @ values
    np.testing.assert_allclose(found, np.interp(x, basis.knots, values), atol=1e-12)
    np.testing.assert_array_equal(basis(basis.knots), np.eye(len(basis.knots)))


def test_beyond_the_last_knot_the_curve_is_level() -> None:
    np.testing.assert_array_equal(UNEVEN(np.array([-5.0, 99.0])), np.eye(5)[[0, 4]])


def test_a_cyclic_basis_wraps_around() -> None:
    hour = BASES["around"]
    np.testing.assert_allclose(hour(np.array([-1.0, 23.0, 47.0])), hour(np.full(3, 23.0)))
    # 22.5 is half-way between the last knot (21) and the first one a day later
    np.testing.assert_allclose(hour(np.array([22.5]))[0, [0, 7]], [0.5, 0.5])
    np.testing.assert_allclose(hour(np.linspace(0, 48, 99)) @ np.ones(8), np.ones(99))


def test_roughness_is_the_sum_of_squared_steps() -> None:
    v = np.array([1.0, 3.0, 2.0, 7.0])
    assert v @ differences(4) @ v == pytest.approx(4 + 1 + 25)
    assert v @ differences(4, wrapped=True) @ v == pytest.approx(4 + 1 + 25 + 36)


def test_the_prior_is_the_inverse_square_root_up_to_its_scale() -> None:
    for wrapped in (False, True):
        rough = differences(7, wrapped=wrapped)
        root = scipy.linalg.inv(scipy.linalg.sqrtm(np.eye(7) + SMOOTHNESS * rough)).real
        found = smoother(rough)
        np.testing.assert_allclose(found, root / np.linalg.norm(root, axis=1).max(), atol=1e-10)


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
def test_the_longest_row_of_a_block_has_norm_one(basis: Hats) -> None:
    """By brute force over a fine grid: never above 1, and 1 at some knot."""
    x = np.linspace(basis.knots[0] - 1, basis.knots[-1] + 3, 20_001)
    norms = np.linalg.norm(basis(x) @ basis.smoother, axis=1)
    assert norms.max() <= 1 + 1e-12
    at_knots = np.linalg.norm(basis(basis.knots) @ basis.smoother, axis=1)
    assert at_knots.max() == pytest.approx(1.0, abs=1e-12)


def test_the_longest_row_of_a_pair_has_norm_one() -> None:
    first, second = UNEVEN, BASES["around"]
    S = pair_smoother(first.roughness, second.roughness)
    a, b = np.meshgrid(np.linspace(-1, 11, 151), np.linspace(0, 24, 151))
    rows = products(first(a.ravel()), second(b.ravel())) @ S
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    a, b = np.meshgrid(first.knots, second.knots)
    corners = products(first(a.ravel()), second(b.ravel())) @ S
    assert np.linalg.norm(corners, axis=1).max() == pytest.approx(1.0, abs=1e-12)


def test_a_pair_with_a_category_is_smooth_along_the_number_only() -> None:
    S = pair_smoother(np.zeros((3, 3)), UNEVEN.roughness).reshape(3, 5, 3, 5)
    for level in range(3):
        np.testing.assert_allclose(S[level, :, level], UNEVEN.smoother, atol=1e-12)
        assert np.abs(S[level][:, [k for k in range(3) if k != level]]).max() < 1e-12


def test_products_are_those_of_each_record() -> None:
    first, second = np.array([[1.0, 2.0]]), np.array([[3.0, 5.0, 7.0]])
    assert products(first, second).tolist() == [[3, 5, 7, 6, 10, 14]]
