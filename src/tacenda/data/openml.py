"""Adult from OpenML, the last resort where neither a folder nor the package index has it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tacenda.data import sources
from tacenda.data.table import Table

# What the merged table must look like, for OpenML gives no checksum: records, and records above
# 50K.
RECORDS, POSITIVE = 48_842, 11_687


def adult_from_openml(why: str) -> Table:
    """The merged table; `why` says what failed before, for the message if this fails too."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            # scikit-learn warns before it tries a second time;
            # the outcome is reported below either way.
            warnings.simplefilter("ignore", UserWarning)
            bunch = fetch_openml("adult", version=2, as_frame=True, parser="liac-arff", n_retries=1)
    except ImportError:
        raise sources.Unavailable(
            f"Adult could not be had: {why} OpenML needs pandas, which is not installed; run: "
            "pip install 'tacenda[pandas]'."
        ) from None
    except (OSError, ValueError) as error:
        raise sources.Unavailable(
            f"Adult could not be had: {why} OpenML failed as well ({type(error).__name__}). "
            f"Offline, {sources.where_to_put('adult.data', 'adult.test')}."
        ) from None
    return from_frame(bunch.frame)


def from_frame(frame: Any) -> Table:
    """OpenML's frame in the form of the UCI text:
    whole numbers as text and '?' for what is missing."""
    from tacenda.data.adult import COLUMNS, NUMERIC

    columns: dict[str, Any] = {}
    for name in COLUMNS:
        cells = frame["class" if name == "income" else name]
        text = [
            str(int(v)) if name in NUMERIC else ("?" if v is None or v != v else str(v))
            for v in cells
        ]
        columns[name] = np.array(text, dtype=object)
    found = (len(frame), int(np.sum(columns["income"] == ">50K")))
    if found != (RECORDS, POSITIVE):
        raise sources.Unavailable(
            f"OpenML's Adult has {found[0]} records where {RECORDS} are expected, or other labels; "
            f"{sources.where_to_put('adult.data', 'adult.test')}."
        )
    return Table(columns, source="OpenML adult")
