"""Members whose records have ids and come and go from month to month, as folders and processes."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from node_stage import Crowd, small_contract, small_schema
from tacenda.cli.app import app
from tacenda.data.schema import Schema
from tacenda.privacy.lasting.ledger_store import LedgerStore
from tacenda_node.identity import contract_files
from tacenda_node.operate.queue import Queue
from tacenda_node.operate.settings import write_settings

FEATURES = 4


def schema_with_ids() -> Any:
    plain = small_schema(FEATURES)
    return Schema(
        columns=plain.columns, label=plain.label, intercept=True, row_norm=1.0, person="id"
    )


def months_contract(n: int = 3, sizes: int = 60, **changes: Any) -> Any:
    """TreeGD on whitened records, one record for each id."""
    values: dict[str, Any] = {
        "schema_hash": schema_with_ids().hash(),
        "algorithm": {"name": "tree-gd", "noise": "masked"},
        "prepare": {"name": "whitening"},
        "rounds": 4,
        "privacy": {
            "epsilon": 2.0,
            "delta": 1e-5,
            "coalition": 1,
            "records_per_person": 1,
            "members_per_person": 1,
        },
        "problem": {
            "n_features": FEATURES,
            "classes": ["no", "yes"],
            "strength": 0.01,
            "row_scale": small_schema(FEATURES).row_scale,
        },
    }
    made = small_contract(n, features=FEATURES, graph="complete", **{**values, **changes})
    plain = made.to_plain()
    for member in plain["members"]:
        member["size"] = sizes
    return type(made).build(plain)


def record(name: str, salt: int = 0) -> list[Any]:
    """One id's record: always the same, unless `salt` says otherwise."""
    rng = np.random.default_rng([salt, *name.encode()])
    cells = rng.random(FEATURES - 1)
    return [
        name,
        *(f"{x:.4f}" for x in cells),
        "yes" if cells[0] + 0.3 * rng.random() > 0.6 else "no",
    ]


def write_records(path: Path, names: list[str], changed: dict[str, int] | None = None) -> Path:
    """names: whose records; changed: by id, another salt."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["id", *(f"x{k}" for k in range(FEATURES - 1)), "y"])
        rows.writerows(record(name, (changed or {}).get(name, 0)) for name in names)
    return path


def ids_of(member: str, first: int, last: int) -> list[str]:
    return [f"{member}-{k}" for k in range(first, last)]


class Months:
    """A federation over months: `run()` the contract at hand, `next(...)` proposes and accepts."""

    def __init__(self, place: Path, contract: Any, budget: float = 5.0) -> None:
        self.place, self.budget = place, budget
        files = {
            m.name: write_records(place / f"{m.name}.csv", ids_of(m.name, 0, m.size))
            for m in contract.members
        }
        self.crowd = Crowd(
            place, contract, ledgers=place / "ledgers", schema=schema_with_ids(), data=files
        )
        self.crowd.keep_own_signatures()
        self.names = self.crowd.names
        for name in self.names:
            self.crowd.options[name] = {
                "rehearsal": False, "budget": budget, "dataset": name, "watch_tls": False,
            }  # fmt: skip
            plain = self.crowd._options(name)
            kept = ("contract", "schema", "data", "identity", "state", "ledger", "bind", "budget")
            write_settings(self.home(name), {k: plain[k] for k in (*kept, "dataset")})
        self.state = "state"

    def home(self, name: str) -> Path:
        return self.crowd.folder(name)

    def records(self, name: str, first: int, last: int, **how: Any) -> None:
        write_records(self.place / f"{name}.csv", ids_of(name, first, last), **how)

    def do(self, *words: str, code: int = 0) -> str:
        found = CliRunner().invoke(app, ["consortium", *words])
        assert found.exit_code == code, found.output
        return found.output

    def next(self, *words: str) -> str:
        """Propose and accept the next run; no node listens, so the others get the file."""
        first, *others = self.names
        said = self.do("propose", "next", *words, "--folder", str(self.home(first)), "--yes")
        number = next(
            p.stem for p in sorted((self.home(first) / "proposals").glob("*.json"))
            if p.stem in said
        )  # fmt: skip
        for name in others:
            file = self.home(first) / "proposals" / f"{number}.json"
            self.do("accept", str(file), "--folder", str(self.home(name)), "--yes")
        for name in self.names:
            queue = Queue(self.home(name))
            entry = queue.entries()[-1]
            settings = queue.settings(Path(entry.what))
            self.crowd.contracts[name] = settings.contract
            self.crowd.options[name] |= {"state": settings.state}
        signed = [contract_files.signatures(self.crowd.contracts[n]) for n in self.names]
        together = {k: v for one in signed for k, v in one.items()}
        assert set(together) == set(self.names)
        return said

    @property
    def contract(self) -> Any:
        return contract_files.read(self.crowd.contracts[self.names[0]])

    def start(self) -> None:
        self.crowd.start()

    def finish(self, seconds: float = 150) -> dict[str, int]:
        codes = self.crowd.wait(seconds)
        self.crowd.stop()
        return codes

    def run(self) -> np.ndarray:
        """The contract at hand to its end; the models, which are the same."""
        from tacenda.runtime.result import load

        self.start()
        codes = self.finish()
        for name, code in codes.items():
            assert code == 0, f"{name} ended with {code}: {self.crowd.output(name)}"
        found = []
        for name in self.names:
            state = Path(self.crowd._options(name)["state"])
            found.append(load(next((state / "results").glob("*.safetensors"))).models.reshape(-1))
        assert all((one == found[0]).all() for one in found)
        return found[0]

    def ledger(self, name: str) -> LedgerStore:
        return LedgerStore(self.crowd.ledgers / name / "ledger.sqlite")

    def lost(self, member: str, name: str) -> float:
        """Epsilon that one id has lost, as the member's ledger has it."""
        with self.ledger(member) as store:
            spent = store.spent(member, ids=store.hashed([name]))
            return float(spent.curve_with_reserved.epsilon(1e-5))
