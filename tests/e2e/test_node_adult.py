"""Eight real processes on a ring train on Adult under mutual TLS: as the simulator with test noise,
and privately as well."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from node_stage import Crowd, simulated, small_contract

MEMBERS, ROUNDS = 8, 100


@pytest.fixture(scope="module")
def adult(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path], list[int]]:
    """The public schema, and eight files of records without missing values."""
    from tacenda.data import adult as source
    from tacenda.errors import InputError

    try:
        table, _test, _ = source._tables()
    except (InputError, OSError) as absent:
        pytest.skip(f"Adult is not on this machine: {absent}")
    folder = tmp_path_factory.mktemp("adult")
    source.adult_schema(intercept=True).write(folder / "schema.toml")
    keep = np.flatnonzero(source._complete(table))
    files, sizes = {}, []
    for k, part in enumerate(np.array_split(keep, MEMBERS)):
        path = files[f"m{k}"] = folder / f"m{k}.csv"
        sizes.append(len(part))
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(source.COLUMNS)
            writer.writerows(zip(*(table.columns[c][part] for c in source.COLUMNS), strict=True))
    return folder / "schema.toml", files, sizes


def _crowd(folder: Path, adult: tuple[Path, dict[str, Path], list[int]], seed: int | None) -> Crowd:
    from tacenda.data.schema import Schema
    from tacenda_node.identity.contract import Contract

    schema = Schema.read(adult[0])
    plain = small_contract(MEMBERS, rounds=ROUNDS, schema_hash=schema.hash()).to_plain()
    plain["problem"] = {
        "n_features": len(schema.feature_names),
        "row_scale": schema.row_scale,
        "classes": list(schema.label.classes or ()),
        "strength": 1e-4,
    }
    plain["algorithm"] = {"name": "ipadmm", "penalty": 0.02, "proximal": 0.5, "inner_steps": 1}
    plain["privacy"] = {"epsilon": 1.0, "delta": 1e-5}
    for member, size in zip(plain["members"], adult[2], strict=True):
        member["size"] = size
    return Crowd(folder, Contract.build(plain), seed=seed, schema=schema, data=adult[1])


@pytest.mark.slow
def test_adult_equals_the_simulation(
    tmp_path: Path, adult: tuple[Path, dict[str, Path], list[int]]
) -> None:
    crowd = _crowd(tmp_path, adult, seed=1)
    crowd.start()
    np.testing.assert_allclose(
        crowd.finish(300), simulated(crowd.stage, seed=1), rtol=0, atol=1e-12
    )


@pytest.mark.slow
def test_adult_privately(tmp_path: Path, adult: tuple[Path, dict[str, Path], list[int]]) -> None:
    """Real noise: within two points of the simulator's accuracy,
    and 100 rounds within 10 s with durable writes."""
    from tacenda.data.encoding import encode
    from tacenda.data.schema import Schema

    crowd = _crowd(tmp_path, adult, seed=None)
    crowd.start()
    models = crowd.finish(300)
    sets = [encode(Schema.read(adult[0]), path) for path in adult[1].values()]
    X, y = np.vstack([s.X for s in sets]), np.concatenate([s.y for s in sets])

    def accuracy(rows: np.ndarray) -> float:
        return float(((X @ rows.mean(0) > 0) == (y == 1)).mean())

    mine, theirs = accuracy(models), accuracy(simulated(crowd.stage, seed=1))
    seconds = crowd.stage.seconds_of_rounds()
    print(
        f"accuracy {mine:.4f} by processes, {theirs:.4f} simulated; "
        f"{seconds:.2f} s for {ROUNDS} rounds"
    )
    assert abs(mine - theirs) < 0.02
    assert seconds < 10
    for result in crowd.stage.results().values():
        assert result.privacy is not None
        assert result.privacy.epsilon <= 1.0 + 1e-6
