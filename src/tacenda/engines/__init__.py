"""Where independent runs are carried out: processes of this machine, a Dask or a Ray cluster.

Each engine is the library's own executor (`pools`); `run_calls` gives them one face. Calls write
their results where they always do, so the workers of a cluster must see the same folders and run
the same program, which every call looks at before it begins.
"""

from __future__ import annotations

from tacenda.engines.calls import Call, run_calls
from tacenda.engines.engine import HERE, LOCAL, Engine, Workers

__all__ = ["HERE", "LOCAL", "Call", "Engine", "Workers", "run_calls"]
