"""Runs are described in one place and put together in one place; each gets what it asks for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from support import problem, run_spec
from tacenda.graph.topology import Topology
from tacenda.privacy.noise.sources import SimulatedNoise
from tacenda.privacy.secrets.ledger import Ledger
from tacenda.questions.facts import Facts
from tacenda.questions.lattice import LatticeQueries
from tacenda.questions.queries import Queries
from tacenda.runtime.assemble import (
    Placed,
    Records,
    ask,
    assemble,
    connect,
    open_door,
    reserved_for,
    shared_noise,
    take_seat,
)
from tacenda.runtime.host import Exits, Seat

SOURCES = Path(tc.__file__).parents[1]
A = tc.algorithms
RING = Topology.of(tc.graph.ring(6))


def callers(name: str) -> list[str]:
    """The files of all packages that call this name, once for each call."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        text = path.read_text("utf-8")
        if f"{name}(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name:
                found.append(path.relative_to(SOURCES).as_posix())
    return found


@pytest.mark.parametrize("name", ["Host", "Door"])
def test_one_place_makes_hosts_and_their_doors(name: str) -> None:
    assert callers(name) == ["tacenda/runtime/assemble.py"]


@pytest.mark.parametrize("name", ["RunSpec", "Network"])
def test_nothing_goes_round_the_description_of_a_run_or_its_network(name: str) -> None:
    """Both are made from a parameter: `cls` of `RunSpec.of`, and `kind` of `connect`."""
    assert callers(name) == []


def spec_of(algorithm: Any, privacy: Any) -> Any:
    return run_spec(algorithm, RING, Facts.of(problem(6)), 3, privacy).checked()


def records_of(data: Any, nodes: Any) -> Records:
    return Records(data.store, data.sizes, nodes, SimulatedNoise(0))


def test_questions_are_whole_numbers_where_the_plan_or_the_node_has_a_grid() -> None:
    data, some = problem(6), np.array([1, 4])
    floats = take_seat(spec_of(A.IPADMM(), tc.Privacy(1.0)), some)
    masked = take_seat(spec_of(A.TreeGD(), tc.Privacy(1.0, coalition=1)), some)
    records = records_of(data, some)
    assert type(ask(floats, records)) is Queries
    assert type(ask(floats, records, grid=0.5)) is LatticeQueries

    class Own(Queries):
        pass

    assert type(ask(floats, records, kind=Own)) is Own
    common: Any = ask(masked, records, grid=0.5, kind=Own)  # the plan's grid is first
    assert type(common) is LatticeQueries and common._common
    assert masked.plan is not None and common._grid == masked.plan.grid


def test_a_seat_has_its_nodes_rows_of_noise_charges_and_facts() -> None:
    data, some = problem(6), np.array([4, 1])
    spec = spec_of(A.IPADMM(), tc.Privacy(1.0))
    found = spec.calibration
    seat, whole = take_seat(spec, some), take_seat(spec, np.arange(6))
    assert np.array_equal(seat.plan.scale, found.plan.scale[some])
    assert whole.plan is found.plan and reserved_for(whole) is found.reserved
    kept, charged = reserved_for(seat), found.reserved
    assert kept is not None
    for (mine, count), (all_of_them, times) in zip(kept, charged, strict=True):
        name = "noise_multiplier"
        assert count == times
        assert np.array_equal(mine.parameters[name], all_of_them.parameters[name][some])
    assert np.array_equal(ask(seat, records_of(data, some)).facts.sizes, spec.facts.sizes[some])
    bare = take_seat(spec_of(A.IPADMM(), None), some)
    assert bare.plan is None and reserved_for(bare) is None


def test_only_runs_without_privacy_go_on_from_exact_minimisers() -> None:
    nodes = np.arange(6)
    records = records_of(problem(6), nodes)
    for privacy, remembers in ((None, True), (tc.Privacy(1.0), False)):
        asked: Any = ask(take_seat(spec_of(A.MADMM(), privacy), nodes), records)
        assert asked._remembers is remembers


def test_neighbours_share_noise_only_where_the_algorithm_says_so() -> None:
    alone = spec_of(A.IPADMM(), tc.Privacy(1.0))
    together = spec_of(A.GossipGD(), tc.Privacy(1.0, coalition=1))
    nodes = np.arange(6)
    assert shared_noise(alone, RING, nodes) is None
    found = shared_noise(together, RING, nodes)
    assert found is not None and found.ratio == together.algorithm.traits.shared_noise


def test_a_host_begins_at_a_copy_of_its_start_in_the_runs_own_type() -> None:
    data, nodes = problem(6), np.arange(6)
    spec = spec_of(A.GossipGD(noise="independent"), None)
    seat, records = Seat(spec, nodes, None), records_of(data, nodes)
    network = connect(spec, Placed(RING, [nodes]))
    start = np.ones((6, data.dim))
    host = assemble(
        seat, ask(seat, records), Exits(open_door(seat, records, Ledger(None)), network), start
    )
    host.step(1)
    assert np.array_equal(start, np.ones((6, data.dim)))
    assert host.output().dtype == spec.row_type and network.traffic.messages == 12
