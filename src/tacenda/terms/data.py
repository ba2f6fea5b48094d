"""Which records a run learns from: a named set, a file with its schema, or a bare public shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Lt, MinLen

from tacenda.terms.setting import setting

_TABLE = "a table or a list in the file; in a shell --set"
_DATA = "--data says it"
_OWN_FILE = "each member names its own file"
_IN_SCHEMA = "the schema says it, and the contract has the schema's hash"


@dataclass(frozen=True)
class StatedData:
    """All that a file or the flags may say about the data. It is a description only: runs take
    records (`tacenda.data`)."""

    name: str | None = setting(
        None,
        kind=str,
        help="A named data set (`tacenda datasets`).",
        left_out={"flag": _DATA, "contract": _OWN_FILE},
    )
    file: str | None = setting(
        None,
        kind=str,
        help="A CSV, Parquet or LIBSVM file.",
        about="A CSV or Parquet file with its `schema`, or a LIBSVM file (.svm, .libsvm, also .gz "
        "or .bz2) with its public `features` and `labels`.",
        left_out={"flag": _DATA, "contract": _OWN_FILE},
    )
    table_schema: str | None = setting(
        None,
        kind=str,
        key="schema",
        flags=("--schema",),
        typed=Path,
        help="The TOML schema of the file: its public bounds and levels.",
        left_out={"contract": "it has the schema's hash"},
    )
    public: str | None = setting(
        None,
        kind=str,
        help="A file of the same schema whose records are public: 'auto' tunes its step on them. "
        "They get no protection, and nothing is charged for them.",
        left_out={"contract": "a plan is tuned before the contract is drafted"},
    )
    person: str | None = setting(
        None,
        kind=str,
        help="Column with the persons' ids, for a promise to persons; by default the schema's.",
        left_out={"contract": _IN_SCHEMA},
    )
    encoding: str | None = setting(
        None,
        kind=Literal["public", "papers"],
        help="adult only: 'public' (declared schema) or 'papers' (104 features).",
        left_out={"contract": _OWN_FILE},
    )
    split: str | None = setting(
        None,
        kind=Literal["all", "official"],
        help="adult only: 'official' keeps UCI's own test part aside, 'all' learns from both.",
        left_out={"contract": _OWN_FILE},
    )
    intercept: bool | None = setting(
        None,
        kind=bool,
        flags=("--intercept/--no-intercept",),
        help="Add a constant feature, inside the norm bound.",
        about="Add a constant feature, inside the norm bound. Named sets and LIBSVM files have "
        "one unless it is false, and a schema says so itself.",
        left_out={"contract": _IN_SCHEMA},
    )
    sparse: bool = setting(
        False,
        kind=bool,
        flags=("--sparse/--dense",),
        help="Keep the rows as a sparse matrix.",
        left_out={"contract": "each member decides how it keeps its rows"},
    )
    dtype: str = setting(
        "float64",
        kind=Literal["float64", "float32"],
        help="Type of the rows: 'float64' or 'float32'.",
        left_out={"contract": "members compute in float64"},
    )
    test_fraction: float = setting(
        0.0,
        kind=Annotated[float, Ge(0), Lt(1)],
        help="Share of the records set aside for testing.",
        left_out={"contract": "evaluation.held_out says it"},
    )
    split_seed: int = setting(
        0,
        kind=Annotated[int, Ge(0)],
        help="Seed with which test records are drawn.",
        left_out={"contract": "each member draws its held-out records in secret"},
    )
    options: dict[str, Any] = setting(
        {},
        kind=dict[str, Any],
        help="Further arguments of a named set's loader.",
        left_out={"flag": _TABLE, "contract": _OWN_FILE},
    )
    records: int | None = setting(
        None,
        kind=Annotated[int, Ge(1)],
        help="Declared number of records, where they are not counted.",
        left_out={
            "flag": "the records of a run are counted; in a shell --set",
            "contract": "its members state their sizes",
        },
    )
    features: int | None = setting(
        None,
        kind=Annotated[int, Ge(1)],
        help="Public number of features, of a LIBSVM file or where no data is named.",
        left_out={"contract": "problem.n_features says it"},
    )
    classes: int | None = setting(
        None,
        kind=Annotated[int, Ge(0)],
        agreed=(Annotated[list[str], MinLen(2)], None),
        help="Number of classes where no data is named; 0 for a regression.",
        about="Number of classes where no data is named; 0 for a regression. A contract lists them "
        "in its [problem].",
        left_out={"flag": "the data of a run says it; `tacenda account` has the flag"},
    )
    labels: list[str] | None = setting(
        None,
        kind=list[str],
        help="The classes of a LIBSVM file, as they are written there.",
        left_out={"flag": _TABLE, "contract": "problem.classes lists them"},
    )
    positive: str | None = setting(
        None,
        kind=str,
        help="Which of two classes is the positive one; by default the second.",
        left_out={"contract": "problem.classes says it by its order"},
    )
