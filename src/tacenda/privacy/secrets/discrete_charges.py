"""Charges of a run on the integer lattice, as what they are.

A run of discrete Gaussians is judged by zero-concentrated privacy, and so the noise is calibrated
for it: a few per cent more than an ideal Gaussian needs.
"""

from __future__ import annotations

from tacenda.errors import PrivacyError
from tacenda.privacy.accounting import events
from tacenda.privacy.secrets.ledger import Charge, Charges


def as_discrete(charge: Charge) -> Charge:
    """The same noise multiplier, on the lattice; masked sums are on it already."""
    if charge.kind is events.MaskedSum:
        return charge
    if charge.kind is not events.Gaussian:
        raise PrivacyError(f"A release of kind {charge.kind.kind!r} is not on the integer lattice.")
    return Charge(events.DiscreteGaussian, charge.entries, charge.nodes)


def discrete_charges(charges: Charges) -> Charges:
    """A whole reservation on the lattice."""
    return Charges((as_discrete(charge), count) for charge, count in charges)


def lattice_stretch(
    charges: Charges, row: int, epsilon: float, delta: float, adjacency: str
) -> float:
    """By how much the Gaussian plan's noise must grow so that its discrete form meets (epsilon,
    delta)."""
    from tacenda.privacy.accounting.calibration import solve_scale

    made = discrete_charges(charges).events(row)

    def at(k: float) -> events.Events:
        return [
            (events.DiscreteGaussian(e.noise_multiplier * k), n)
            for e, n in made
            if isinstance(e, events.DiscreteGaussian)
        ]

    return float(solve_scale(at, epsilon, delta, adjacency))
