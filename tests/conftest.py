"""What every test shares: slow tests wait to be asked for, hypothesis is reproducible, each kernel
is compiled by one worker for all, and no process computes with more than one thread."""

from __future__ import annotations

import os
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Workers and members share few cores, and threads of BLAS that wait for each other burn them: a
# test with eigenvalues took thirty times its processor time. Read when numpy is imported.
for library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("house"), derandomize=False, max_examples=400
)
settings.load_profile(os.environ.get("TACENDA_HYPOTHESIS", "house"))


def pytest_configure(config: pytest.Config) -> None:
    """Stop if the installation is older than the entry points of pyproject.toml."""
    if hasattr(config, "workerinput"):
        import compile_once  # loads numba

        compile_once.install()
    written = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    for group, entries in written["project"]["entry-points"].items():
        if (
            not entries.items()
            <= {one.name: one.value for one in entry_points(group=group)}.items()
        ):
            raise pytest.UsageError(
                f"The entry points {group!r} are not installed as pyproject.toml has them; "
                "run `pip install --no-deps -e .` again."
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow") or config.getoption("-m"):
        return
    wait = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(wait)
