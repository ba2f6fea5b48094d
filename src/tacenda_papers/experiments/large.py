"""The `epsilon`-shaped run at full size: time, peak memory, and where the time goes."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

from tacenda import Method, Privacy, Problem, checks, plan, simulate
from tacenda.algorithms import DPDDA
from tacenda.data import make_epsilon_like, partition
from tacenda.errors import InputError
from tacenda.graph import ring

NODES, EPOCHS, STRENGTH, DELTA = 20, 3, 0.0005, 0.01


def measure(rows: int, batch: str, epsilon: float) -> dict[str, Any]:
    """Generate, run 3 epochs of private dual averaging over a ring of 20, and say what it took.

    batch "plan": the planner's algorithm with rounds held to 3 passes over the data; a number:
    Poisson samples of that mean at every node.
    """
    checks.whole("rows", rows, least=NODES)
    clock = _Clock()
    data = make_epsilon_like(rows, spectrum=0.0)  # as in the published table
    clock("generate the records")
    problem = Problem(
        partition.even(data.X, data.y, NODES), classes=(0, 1), loss="hinge", strength=STRENGTH
    )
    clock("bound rows, build the problem")
    privacy = Privacy(epsilon, DELTA)
    method = _method(problem, batch, privacy)
    clock("plan")
    profile = _Profile()
    with profile:
        result = simulate(
            problem,
            ring(NODES),
            method,
            privacy=privacy,
            seed=0,
            record_every=0,
            progress="auto",
            mixing="uniform",
        )
    clock("run, calibration included")
    size = data.X.nbytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    right = problem.accuracy(result.model)
    clock("judge")
    assert result.privacy is not None
    return {
        "records": rows,
        "features": data.X.shape[1],
        "data, GB": round(size / 1e9, 3),
        "algorithm": str(method.algorithm),
        "rounds": method.rounds,
        "epsilon, delta": f"{result.privacy.epsilon:.4f}, {DELTA:g}",
        "accuracy (training)": round(right, 4),
        **{f"seconds: {k}": round(v, 2) for k, v in clock.seconds.items()},
        "seconds in rounds": round(result.seconds, 2),
        "peak memory, GB": round(peak / 1e9, 3),
        "peak over data": round(peak / size, 3),
        "where the time goes": profile.told(),
    }


def _method(problem: Problem, batch: str, privacy: Privacy) -> Method:
    if batch == "plan":
        known: dict[str, Any] = {"loss": "hinge", "strength": STRENGTH}
        return plan(problem.sizes, problem.dim, ring(NODES), privacy, rounds=EPOCHS, **known).method
    if not batch.isdigit() or int(batch) < 1:
        raise InputError(f"batch must be 'plan' or a whole number of at least 1, not {batch!r}.")
    rounds = EPOCHS * int(problem.sizes.min()) // int(batch)
    return Method(DPDDA(batch_size=int(batch)), max(1, rounds))


class _Clock:
    """Seconds of each stretch, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self.last = now - self.last, now


class _Profile:
    """The five functions with the largest own time, by cProfile."""

    def __enter__(self) -> None:
        import cProfile

        self.run = cProfile.Profile()
        self.run.enable()

    def __exit__(self, *_: object) -> None:
        self.run.disable()

    def told(self) -> list[str]:
        import pstats

        stats = pstats.Stats(self.run).stats  # type: ignore[attr-defined]
        own = sorted(((v[2], k) for k, v in stats.items()), reverse=True)[:5]
        return [
            f"{seconds:.2f} s {key[2]} ({key[0].rsplit('/', 1)[-1]}:{key[1]})"
            for seconds, key in own
        ]
