"""A round on blank records is a real round in all that is public: types and lengths of what is kept
and sent."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import TUNED, WHITENED, run_spec, shards, uneven
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.questions.facts import Facts
from tacenda.runtime.local import LocalHosts
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.places import OpenGate, row_forms
from tacenda.runtime.rehearsal import blank_host

CHOSEN = ("ipadmm", "dpdda", "gossipgd", "treegd", "whitened treegd", "whitened ipadmm")


def arrays(state: Any) -> dict[str, Any]:
    """The arrays of a state, those of a wrapped one included."""
    found: dict[str, Any] = {}
    for one in fields(state):
        value = getattr(state, one.name)
        if isinstance(value, np.ndarray):
            found[one.name] = value
        elif hasattr(value, "__dataclass_fields__"):
            found |= {f"{one.name}.{k}": v for k, v in arrays(value).items()}
    return found


@pytest.mark.parametrize("name", CHOSEN)
def test_rows_and_states_have_the_type_of_the_records(name: str) -> None:
    single = np.dtype(np.float32)
    data = tc.Problem(
        shards(uneven(6), 4, dtype=single), classes=("no", "yes"), strength=0.1, data_norm=1.001
    )
    topology, algorithm = Topology.of(tc.graph.ring(6)), {**TUNED, **WHITENED}[name]
    spec = run_spec(algorithm, topology, Facts.of(data), 2, row_type=single).checked()
    assert {form.dtype for form in row_forms(spec).values()} <= {single, np.dtype(np.uint64)}
    real = LocalHosts(
        spec, LocalShards(data, [np.arange(6)]), SimulatedNoise(0), np.zeros((6, data.dim))
    )
    blank = blank_host(spec, np.arange(6), OpenGate(spec.row_type), width=data.dim)
    for turn in (1, 2):
        here, there = arrays(real._hosts[0].state), arrays(blank.state)
        assert {k: (v.dtype, v.shape) for k, v in here.items()} == {
            k: (v.dtype, v.shape) for k, v in there.items()
        }, turn
        real.step(turn)
        if name in WHITENED:
            return  # from here on the map of blank records is another one
        blank.step(turn)
