"""Digests of what the program computes, to the last bit: run before and after a change that should
change nothing.

    python tests/digests.py record before.json    on the old state of the repository
    python tests/digests.py compare before.json   on the new one; names every difference, and exits
                                                  with 1 if there is any

Every algorithm with and without privacy, on three graphs, on one and three blocks, dense, sparse
and float32, several classes and regression; statements with all their charges; estimators;
calibrated noise; models of real peers with seeded noise. The bits belong to one machine and one set
of libraries, so the file is not kept in the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent / "helpers"))

import numpy as np
from scipy.sparse import csr_array

import tacenda as tc
from support import TUNED, run_spec, shards, uneven
from tacenda.algorithms import registry

A = tc.algorithms
N = 6
GRAPHS = {
    "ring": tc.graph.ring(N),
    "star": tc.graph.star(N),
    "regular": tc.graph.random_regular(N, 3, seed=2),
}
MORE = {
    "gossipgd, independent": A.GossipGD(step_size=1.0, noise="independent"),
    "dpdda, correlated": A.DPDDA(offset=0.0, noise="correlated"),
    "dpdda, batch": A.DPDDA(batch_size=4),
    "dpdda, one": A.DPDDA(batch_size=1, sampling="one"),
    "ipadmm, batch": A.IPADMM(penalty=0.1, proximal=0.3, batch_size=3, radius=0.5),
    "ipadmm, theory": A.IPADMM(penalty=0.1, proximal="theory", inner_steps=2),
    "pvp, gaussian": A.PVP(penalty=0.2, noise="gaussian"),
    "pvp, closing": A.PVP(penalty=0.2, closing_dvp=True),
}


def digest(*parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(
                f"{part.shape} {part.dtype}".encode() + np.ascontiguousarray(part).tobytes()
            )
        else:
            found.update(json.dumps(part, sort_keys=True, default=str).encode())
    return found.hexdigest()[:20]


def problems() -> dict[str, Any]:
    single, named = shards(uneven(N), 5, dtype=np.float32), ("no", "yes")
    double = shards(uneven(N), 4)
    return {
        "dense": tc.Problem(double, strength=0.1, classes=named),
        "float32": tc.Problem(single, strength=0.1, classes=named),
        "sparse": tc.Problem([(csr_array(x), y) for x, y in double], strength=0.1, classes=named),
        "classes": tc.Problem(
            shards(uneven(N), 3, task="classes"),
            loss="multinomial",
            strength=0.1,
            classes=(0, 1, 2),
        ),
        "huber": tc.Problem(shards(uneven(N), 3, task="regression"), loss="huber", strength=0.1),
    }


def promise(statement: Any) -> dict[str, Any]:
    """A statement less what only says in words what its charges hold."""
    return {name: value for name, value in statement.to_plain().items() if name != "coalition"}


def run_digest(*args: Any, **more: Any) -> str:
    try:
        result = tc.simulate(*args, progress=False, record_every=2, **more)
    except tc.errors.TacendaError as refused:
        return f"refused: {type(refused).__name__}"
    about = None if result.privacy is None else promise(result.privacy)
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in result.history.rows]
    return digest(result.models, result.last, about, rows, result.messages, result.bytes)


def budget(algorithm: Any) -> Any:
    if getattr(algorithm, "batch_size", None) is not None:  # its calibration takes a minute
        return tc.Privacy.from_noise(noise_multiplier=2.0)
    return tc.Privacy(epsilon=3.0, delta=1e-5)


def simulations() -> Iterator[tuple[str, str]]:
    data = problems()
    for name, algorithm in {**TUNED, **MORE}.items():
        for kind, problem in data.items():
            for graph in GRAPHS if kind == "dense" else ("star",):
                for private in (False, True) if type(algorithm).private else (False,):
                    for blocks in (1, 3) if kind in ("dense", "float32") else (1,):
                        chosen = budget(algorithm) if private else None
                        label = (
                            f"run | {name} | {kind} | {graph} | "
                            f"{'private' if private else 'plain'} | {blocks}"
                        )
                        yield (
                            label,
                            run_digest(
                                problem,
                                GRAPHS[graph],
                                algorithm,
                                5,
                                chosen,
                                11,
                                blocks=blocks,
                                finish_mixing=2,
                            ),
                        )
    for name, published in (
        ("ipadmm", 1.0),
        ("dvp", 1.0),
        ("pvp", 1.0),
        ("radmm", 1.0),
        ("cdpadmm", 1.0),
        ("dpdda", 1.0),
    ):
        chosen = tc.Privacy(published, mode="as-published")
        yield (
            f"as published | {name}",
            run_digest(data["dense"], GRAPHS["ring"], TUNED[name], 5, chosen, 11),
        )
    worst = tc.Privacy(2.0, node_noise="worst", spread=(1.0, 2.0, 3.0, 4.0, 5.0))
    for name in ("ipadmm", "dpdda", "dvp"):
        yield (
            f"worst, spread | {name}",
            run_digest(data["dense"], GRAPHS["ring"], TUNED[name], 5, worst, 11),
        )


def calibrations() -> Iterator[tuple[str, str]]:
    from tacenda.graph.topology import Topology
    from tacenda.questions.facts import Facts

    problem = problems()["dense"]
    for name, algorithm in {**TUNED, **MORE}.items():
        if not type(algorithm).private or getattr(algorithm, "batch_size", None) is not None:
            continue
        for graph in ("star", "regular"):
            for epsilon in (0.5, 2.0):
                try:
                    spec = run_spec(
                        algorithm,
                        Topology.of(GRAPHS[graph]),
                        Facts.of(problem),
                        7,
                        tc.Privacy(epsilon, 1e-6),
                    )
                    found = spec.checked().calibration
                except tc.errors.TacendaError as refused:
                    yield (
                        f"noise | {name} | {graph} | {epsilon}",
                        f"refused: {type(refused).__name__}",
                    )
                    continue
                charges = [
                    (c.kind.kind, n, {k: v.tolist() for k, v in c.parameters.items()})
                    for c, n in found.reserved
                ]
                yield f"noise | {name} | {graph} | {epsilon}", digest(found.plan.scale, charges)


def estimators() -> Iterator[tuple[str, str]]:
    made = tc.data.make_classification(600, 5, seed=3)
    target = made.X @ np.arange(5.0)
    cases = {
        "logistic": (tc.PrivateLogisticRegression, made.y, {}),
        "svc": (tc.PrivateLinearSVC, made.y, {}),
        "ridge": (tc.PrivateRidge, target, {"target_bounds": (-10, 10)}),
        "huber": (tc.PrivateHuberRegressor, target, {"target_bounds": (-10, 10)}),
        "lasso": (tc.PrivateLasso, target, {"target_bounds": (-10, 10)}),
        "elastic": (tc.PrivateElasticNet, target, {"target_bounds": (-10, 10)}),
    }
    for name, (kind, y, more) in cases.items():
        model = kind(epsilon=2.0, n_nodes=6, rounds=10, random_state=0, **more).fit(made.X, y)
        yield (
            f"estimator | {name}",
            digest(np.asarray(model.coef_), np.asarray(model.intercept_), promise(model.privacy_)),
        )


def peers() -> Iterator[tuple[str, str]]:
    from node_stage import Crowd, small_contract
    from tacenda.runtime.result import load

    for name, algorithm in {
        "ipadmm": {"name": "ipadmm", "penalty": 0.1, "inner_steps": 2},
        "gossipgd": {"name": "gossipgd", "step_size": 1.0},
    }.items():
        privacy = {"epsilon": 5.0, "delta": 1e-5, "coalition": 1, "floating_point_noise": True}
        with tempfile.TemporaryDirectory() as folder:
            crowd = Crowd(
                Path(folder), small_contract(3, algorithm=algorithm, privacy=privacy), seed=5
            )
            crowd.start()
            crowd.wait()
            for member in crowd.names:
                files = sorted(crowd.folder(member).rglob("*.safetensors"))
                found = load(files[-1]) if files else None
                yield (
                    f"peer | {name} | {member}",
                    "none"
                    if found is None
                    else digest(found.models, found.privacy.to_plain()["charges"]),
                )


def everything(with_peers: bool) -> dict[str, str]:
    found: dict[str, str] = {"algorithms": ",".join(sorted(registry.ALGORITHMS))}
    parts = [simulations, calibrations, estimators] + ([peers] if with_peers else [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts:
            for label, value in part():
                found[label] = value
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--no-peers", action="store_true", help="leave out the real processes")
    chosen = parser.parse_args()
    found = everything(not chosen.no_peers)
    if chosen.what == "record":
        chosen.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} digests in {chosen.file}")
        return 0
    before = json.loads(chosen.file.read_text())
    different = [
        label for label in sorted({*before, *found}) if before.get(label) != found.get(label)
    ]
    for label in different:
        print(f"{label}: {before.get(label)} -> {found.get(label)}")
    print(f"{len(different)} of {len(found)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
