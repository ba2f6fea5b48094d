"""Members whose contract has tables: their cards, records and files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from node_stage import Crowd
from tacenda.data.schema import Schema
from tacenda_node.operate.settings import write_settings
from tacenda_node.setup import drafting

POINTS = [1.0, 2.0, 3.0, 4.0]
SIZES = (1400, 1000, 1600)
PRIVACY = {"epsilon": 3.0, "delta": 1e-5, "coalition": 1}


def schema() -> Schema:
    return Schema.build(
        columns=[
            {"kind": "numeric", "name": "age", "low": 0, "high": 100, "impute": 50},
            {"kind": "categorical", "name": "arm", "levels": ["old", "new"], "impute": "old"},
        ],
        label={"name": "died", "classes": ["0", "1"]},
        missing="impute",
        survival={"time": "t", "event": "died", "points": POINTS},
    )


def records(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    arm = rng.choice(["old", "new"], n)
    age = np.clip(rng.normal(55, 15, n), 0, 100).round(1)
    time = rng.exponential(3.0 * np.exp(0.7 * (arm == "new") - 0.01 * (age - 55)))
    age[rng.uniform(size=n) < 0.05] = np.nan
    died = np.where(time < 4, "1", "0")
    return pd.DataFrame({"age": age, "arm": arm, "died": died, "t": np.minimum(time, 4.0)})


def cards() -> list[dict[str, Any]]:
    return [
        {
            "name": f"m{k}",
            "size": size,
            "address": "localhost:1",
            "fingerprint": f"{k:064x}",
            "signing_key": base64.b64encode(k.to_bytes(32, "big")).decode(),
            "authority": "-----BEGIN CERTIFICATE-----",
        }
        for k, size in enumerate(SIZES)
    ]


def crowd(folder: Path, own: Schema | None = None, **terms: Any) -> tuple[Crowd, pd.DataFrame]:
    """Members with a contract of these terms, and all of their records."""
    stated = {"title": "study", "privacy": PRIVACY, **terms}
    made = drafting.draft(cards(), stated, own or schema())
    folder.mkdir(parents=True, exist_ok=True)
    frames, files = [], {}
    for k, size in enumerate(SIZES):
        frames.append(records(size, k))
        files[f"m{k}"] = folder / f"m{k}.csv"
        frames[-1].to_csv(files[f"m{k}"], index=False)
    real = {"rehearsal": False, "no_budget": True}
    stage = Crowd(
        folder,
        made.contract,
        ledgers=folder / "ledgers",
        options=dict.fromkeys(made.contract.names, real),
        schema=own or schema(),
        data=files,
    )
    return stage, pd.concat(frames)


def found(crowd: Crowd, name: str, table: str) -> dict[str, Any]:
    path = crowd.folder(name) / "state" / "tables" / f"{table}.json"
    values: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return values


def with_settings(stage: Crowd) -> None:
    """Folders as an evidence pack reads them."""
    stage.keep_own_signatures()
    kept = ("contract", "schema", "data", "identity", "state", "ledger")
    for name in stage.names:
        plain = stage._options(name)
        write_settings(stage.folder(name), {k: plain[k] for k in kept} | {"no_budget": True})
