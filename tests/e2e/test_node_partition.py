"""A network that breaks into two parts of live processes, and heals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaos_proxy import between
from node_stage import Crowd, simulated, small_contract
from tacenda.runtime.result import load

pytestmark = pytest.mark.slow
PATIENCE = 400  # seconds, on a machine with much else to do


class Parted:
    """Members whose connections all go through proxies, so that they can be cut."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd, self._proxies = crowd, between(crowd)

    def cut(self, side: set[str], cut: bool = True) -> None:
        """Cut, or let through again, what joins these members with the others."""
        for ends, proxy in self._proxies.items():
            if len(side & set(ends)) == 1:
                proxy.cut(cut)

    def close(self) -> None:
        self.crowd.stop()
        for proxy in self._proxies.values():
            proxy.close()


@contextmanager
def parted(folder: Path, contract: Any, **how: Any) -> Iterator[Parted]:
    crowd = Crowd(folder, contract, **how)
    crowd.keep_own_signatures()  # so that no round begins before all processes are there
    made = Parted(crowd)
    try:
        yield made
    finally:
        made.close()


def whitened(n: int, rounds: int, limit: float, graph: str = "complete") -> Any:
    return small_contract(
        n,
        rounds=rounds,
        graph=graph,
        algorithm={"name": "treegd"},
        prepare={"name": "whitening"},
        privacy={"epsilon": 50.0, "delta": 1e-5, "coalition": 1},
        absence={"policy": "continue", "limit_seconds": limit, "losses": 4},
    )


def all_alike(crowd: Crowd) -> None:
    """All end with one model, and nobody has spent more than was promised."""
    codes = crowd.wait(PATIENCE)
    assert set(codes.values()) == {0}, {name: crowd.output(name) for name in crowd.names}
    for name in crowd.names:
        found = load(crowd.folder(name) / "state" / "results" / f"treegd-{name}.safetensors")
        assert found.privacy is not None and found.privacy.epsilon <= 50.0
    models = crowd.models()
    assert all(row.tobytes() == models[0].tobytes() for row in models)


def test_a_partition_shorter_than_the_limit_changes_no_bit(tmp_path: Path) -> None:
    contract = small_contract(
        4,
        rounds=300,
        algorithm={"name": "ipadmm", "penalty": 0.1, "inner_steps": 1},
        # Nothing is reserved for losses: the noise is that of a simulation
        absence={"policy": "continue", "limit_seconds": 60.0, "losses": 0},
    )
    with parted(tmp_path, contract, seed=5) as net:
        net.crowd.start()
        for side in ({"m0", "m1"}, {"m2"}):
            for name in net.crowd.names:
                net.crowd.until(name, "round one done")
            net.cut(side)
            time.sleep(4)
            net.cut(side, cut=False)
        models = net.crowd.finish(PATIENCE)
        assert all("membership changed" not in net.crowd.log(name) for name in net.crowd.names)
    np.testing.assert_allclose(models, simulated(net.crowd.stage, seed=5), rtol=0, atol=1e-12)


@pytest.mark.parametrize("begun", [False, True])
def test_the_larger_side_goes_on_and_the_smaller_one_comes_back(
    tmp_path: Path, begun: bool
) -> None:
    """Before round 1 or later: the two who are cut off, one of them the root, stop with everything
    saved; started again when the network has healed, they are handed the map and end alike."""
    few, many = ["m0", "m1"], ["m2", "m3", "m4"]
    with parted(tmp_path, whitened(5, 1500, 8.0)) as net:
        crowd = net.crowd
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "round one done" if begun else "all members have signed")
        net.cut(set(few))
        codes = crowd.wait(120, few)
        assert set(codes.values()) == {2}, [crowd.output(name) for name in few]
        for name in few:
            assert "not more than half. Everything is saved" in crowd.output(name)
        for name in many:
            crowd.until(name, "membership changed")
        net.cut(set(few), cut=False)
        crowd.start(*few)
        for name in few:
            crowd.until(name, "membership changed")
        all_alike(crowd)


def test_two_halves_wait_for_each_other(tmp_path: Path) -> None:
    """Neither half is more than half: all stop, and go on together when the network has
    healed."""
    with parted(tmp_path, whitened(4, 300, 15.0, "ring")) as net:
        crowd = net.crowd
        crowd.start()
        for name in crowd.names:
            crowd.until(name, "all members have signed")
        net.cut({"m0", "m1"})
        codes = crowd.wait(120)
        assert set(codes.values()) == {2}, [crowd.output(name) for name in crowd.names]
        net.cut({"m0", "m1"}, cut=False)
        crowd.start()
        all_alike(crowd)
