"""The audit of runs in groups, whose every sum is heard; and what a fault does to the exit code in
the shell."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda.auditing import aim, audit
from tacenda.graph.groups import Groups
from tacenda.privacy.noise.sources import SimulatedNoise

TERMS = tc.Privacy(4.0, 1e-5, coalition=1)
GRAPH = tc.graph.complete(9)


def no_masks(honest: Any) -> Any:
    return lambda self, edges, turn, call, dim: np.zeros((len(edges[0]) - 1, dim), np.uint64)


def half_noise(honest: Any) -> Any:
    return lambda self, nodes, turn, call, scale, dim: honest(
        self, nodes, turn, call, scale / 2, dim
    )


def one_sum(honest: Any) -> Any:
    """As if each group's sum hid a member as well as that of all."""
    return lambda self, coalition: (np.full(self.topology.n, 1 / (self.topology.n - 1)), "exact")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "method", "fault", "broken", "declared"),
    [
        (None, "", None, False, True),
        (SimulatedNoise, "masks", no_masks, True, False),
        (SimulatedNoise, "whole_gaussian", half_noise, True, False),
        (Groups, "leverage", one_sum, True, True),
    ],
)
def test_verdicts(
    kind: Any,
    method: str,
    fault: Any,
    broken: bool,
    declared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aim, "SCOUTS", 200)
    if kind is not None:
        monkeypatch.setattr(kind, method, fault(getattr(kind, method)))
    found = audit(
        "treegd", privacy=TERMS, rounds=3, trials=1600, seed=1, graph=GRAPH, groups=3,
        progress=False,
    )  # fmt: skip
    assert (found.broken, found.as_declared) == (broken, declared), found.summary()


NOT_DECLARED = """
import sys
import numpy as np
from tacenda.auditing import aim
from tacenda.privacy.noise.sources import SimulatedNoise

honest = SimulatedNoise.whole_gaussian
aim.SCOUTS = 400
if "faulty" in sys.argv:
    sys.argv.remove("faulty")
    # Louder than declared: nobody learns more, and it is not what was said
    SimulatedNoise.whole_gaussian = lambda self, nodes, turn, call, scale, dim: honest(
        self, nodes, turn, call, scale * 1.5, dim
    )
from tacenda.cli import main

main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [False, True])
def test_not_as_declared_exits_non_zero(faulty: bool) -> None:
    options = ["audit", "treegd", "--rounds", "3", "--trials", "400", "--groups", "3", "--nodes"]
    command = [sys.executable, "-c", NOT_DECLARED, *(["faulty"] if faulty else []), *options, "9"]
    found = subprocess.run(
        [*command, "--graph", "complete", "--epsilon", "4", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("not as declared" in found.stdout) == faulty, found.stdout + found.stderr
    assert found.returncode == (3 if faulty else 0), found.stdout + found.stderr
