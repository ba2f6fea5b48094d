"""How a run is carried out: the settings of its method, with which seeds, what is measured, and
where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, MinLen

from tacenda.terms.method import Method
from tacenda.terms.setting import AUTO, Auto, setting

_SIMULATION = "of a simulation alone"
_OWN_MACHINE = "each member decides about its own machine"
_SHELL = "in a shell --set"


@dataclass(frozen=True)
class StatedRun(Method):
    """All that a file or the flags may say in [run]. It is a description only: `tacenda.Method` is
    what runs take."""

    seeds: list[int] = setting(
        [0],
        kind=Annotated[list[int], MinLen(1)],
        flags=("--seed",),
        typed=list[int],
        help="Seed of the noise; repeat it for several runs.",
        left_out={"contract": "the noise of members is secret; rehearsal_seed is for rehearsals"},
    )
    fresh_noise: bool | None = setting(
        None,
        kind=bool,
        flags=("--fresh-noise/--seeded-noise",),
        help="Draw the noise from a secret seed; the run cannot be repeated.",
        about="Draw the noise from a secret seed; the run cannot be repeated, and "
        "`seeds` only number the runs. By default true for a file of your own, unless seeds are "
        "given.",
        left_out={"contract": "the noise of members is always fresh"},
    )
    folder: str | None = setting(
        None,
        kind=str,
        flags=("--folder", "-o"),
        typed=Path,
        help="Folder for the run; by default runs/<name>-<time>.",
        left_out={"contract": _OWN_MACHINE},
    )
    record_every: int | Auto = setting(
        AUTO,
        kind=int | Auto,
        help="Rounds between two measurements; 0 measures the end only.",
        left_out={"flag": _SHELL, "contract": _SIMULATION},
    )
    metrics: list[str] | Auto = setting(
        AUTO,
        kind=list[str] | Auto,
        help="What is measured between rounds (`tacenda.runtime.metrics`).",
        left_out={"flag": _SHELL, "contract": _SIMULATION},
    )
    blocks: int = setting(
        1,
        kind=Annotated[int, Ge(1)],
        help="Number of blocks that nodes are divided into; the result does not depend on it.",
        left_out={"flag": _SHELL, "contract": _SIMULATION},
    )
    solver_tolerance: float = setting(
        1e-8,
        kind=float,
        agreed=(Annotated[float, Gt(0)], 1e-8),
        help="Gradient norm at which an exact local minimiser stops; its remaining gap is charged.",
    )
    jobs: int | Auto = setting(
        AUTO,
        kind=int | Auto,
        flags=("--jobs", "-j"),
        typed=int,
        help="Number of processes that run in parallel.",
        left_out={"contract": _OWN_MACHINE},
    )
    engine: str = setting(
        "loky",
        kind=str,
        help="Where independent runs are carried out: loky (processes of this machine), "
        "dask://host:port, ray://host:port, or ray (one on this machine).",
        left_out={"contract": _SIMULATION},
    )
    references: bool | Auto = setting(
        AUTO,
        kind=bool | Auto,
        flags=("--references/--no-references",),
        typed=bool,
        help="Rows to compare with: optimum, trusted server, one node alone, floor; by default "
        "without the two private fits if the data is large.",
        about="Rows to compare with: the optimum without noise, a trusted server, one node alone "
        'and the floor. They read all records again. "auto" leaves the two private fits among them '
        "out where the data is large.",
        left_out={"contract": _SIMULATION},
    )
    ledger: str | None = setting(
        None,
        kind=str,
        typed=Path,
        help="A lasting ledger's file to which the run is charged.",
        left_out={"contract": _OWN_MACHINE},
    )
    ledger_dataset: str | None = setting(
        None,
        kind=str,
        help="The records' name in the ledger.",
        about="The records' name in the ledger. Given once, it is remembered with them: later runs "
        "on the same records are booked there without it.",
        left_out={"contract": _OWN_MACHINE},
    )
