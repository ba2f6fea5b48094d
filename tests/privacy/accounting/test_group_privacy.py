"""Several records of one person: `Curve.group(k)` of discrete noise against what k shifted records
really give away."""

from __future__ import annotations

from typing import Any

import pytest

from reference_curves import lattice_delta, zcdp_epsilon
from tacenda.privacy.accounting.events import CorrelatedGaussian, DiscreteGaussian, Gaussian, Pure
from tacenda.privacy.accounting.judge import judge

SIZES = [2, 3, 5]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("z", "rounds"), [(6.0, 1), (25.0, 40)])
def test_a_group_loses_the_square_of_its_size(size: int, z: float, rounds: int) -> None:
    """k records move the sum by k sensitivities, so rho is k^2 rounds / (2 z^2)."""
    curve = judge([(DiscreteGaussian(z), rounds)]).group(size)
    assert curve.group_size == size
    for delta in (1e-3, 1e-6):
        assert curve.epsilon(delta) == pytest.approx(
            zcdp_epsilon(size**2 * rounds / (2 * z * z), delta), rel=1e-5
        )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_group_never_loses_more_than_is_said(size: int, rounds: int) -> None:
    """Each record moves the whole numbers by 3, the noise spans 12 steps: the sums over the lattice
    stay below the curve."""
    moved, std = 3, 12.0
    curve = judge([(DiscreteGaussian(std / moved), rounds)]).group(size)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        true = lattice_delta(std, size * moved, rounds, epsilon)
        assert true <= curve.delta(epsilon)
        assert true > 0.02 * min(curve.delta(epsilon), 1.0)  # and the bound is of the right size


def test_a_group_of_groups_is_one_group() -> None:
    once = judge([(DiscreteGaussian(20.0), 5)])
    assert once.group(2).group(3).epsilon(1e-5) == pytest.approx(
        once.group(6).epsilon(1e-5), rel=1e-12
    )
    assert once.group(2).group(3).group_size == 6


@pytest.mark.parametrize("other", [Gaussian(9.0), CorrelatedGaussian(0.1, 1), Pure(0.05)])
def test_every_part_of_a_mixture_is_grouped(other: Any) -> None:
    """rho adds over the parts, each with the square of the group's size."""
    rho = {"gaussian": 1 / 162, "correlated-gaussian": 0.005, "pure": 0.05**2 / 2}[other.kind]
    curve = judge([(DiscreteGaussian(8.0), 2), (other, 3)]).group(3)
    assert curve.epsilon(1e-5) == pytest.approx(
        zcdp_epsilon(9 * (2 / 128 + 3 * rho), 1e-5), rel=1e-5
    )
