"""Where independent runs are carried out: processes of this machine, a Dask or a Ray cluster.

Each engine is the library's own executor; here they get one face. A call that is lost with its
worker is made again on another one, at most RETRIES times; an error of the call itself ends the
whole at once. Calls write their results where they always do, so the workers of a cluster must see
the same folders and run the same program, which is tried before anything else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda.errors import InputError, StateError
from tacenda.words import counted

RETRIES = 3
CONNECT_SECONDS = 10
LOCAL = "loky"
Submit = Callable[..., "Future[Any]"]


class EngineWarning(UserWarning):
    """A worker was lost, and its calls are made again."""


@dataclass(frozen=True)
class Engine:
    """kind: "loky", "dask" or "ray"; address: of a cluster, as its own client wants it."""

    kind: str
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Engine:
        """From "loky", "dask://host:port", "ray://host:port" or "ray"."""
        kind, separator, address = text.partition("://")
        given = bool(separator), bool(address)
        good = {"loky": [(False, False)], "dask": [(True, True)]}
        good["ray"] = [(False, False), (True, True)]
        if given not in good.get(kind, []):
            raise InputError(
                "engine must be 'loky' (processes of this machine), 'dask://host:port', "
                f"'ray://host:port', or 'ray' (one on this machine), not {text!r}."
            )
        return cls(kind, address)

    @property
    def is_local(self) -> bool:
        return self.kind == LOCAL

    def __str__(self) -> str:
        return f"{self.kind}://{self.address}" if self.address else self.kind


def run_calls(
    engine: Engine, calls: Sequence[tuple[Any, ...]], jobs: int, folder: str | Path | None = None
) -> Iterator[tuple[int, Any]]:
    """(position, result) of each call (function, *arguments), as they come; jobs: the number of
    processes of this machine (a cluster uses its own). folder: where the calls write."""
    left = dict(enumerate(calls))
    for attempt in range(RETRIES + 1):
        with _executor(engine, min(jobs, len(left))) as submit:
            if not engine.is_local and attempt == 0:
                _probe(engine, submit, None if folder is None else Path(folder))
            waiting = {submit(*call): k for k, call in left.items()}
            try:
                for job in as_completed(waiting):
                    k = waiting[job]
                    yield k, job.result()
                    del left[k]
                return
            except _lost(engine) as lost:
                if attempt == RETRIES:
                    raise StateError(
                        f"engine {engine}: workers were lost {RETRIES + 1} times, the last time "
                        f"with {type(lost).__name__}; {counted(len(left), 'run')} are not done. "
                        "What is finished is stored: look at the workers' memory, then start again."
                    ) from None
            except _gone(engine) as gone:
                raise StateError(
                    f"engine {engine} is gone ({type(gone).__name__}); {counted(len(left), 'run')} "
                    "are not done. What is finished is stored: start again when it is back."
                ) from None
            finally:
                for job in waiting:
                    job.cancel()
        warnings.warn(
            f"engine {engine}: a worker was lost; {counted(len(left), 'run')} are made again.",
            EngineWarning,
            stacklevel=2,
        )


@contextlib.contextmanager
def _executor(engine: Engine, jobs: int) -> Iterator[Submit]:
    if engine.kind == "dask":
        with _dask(engine) as submit:
            yield submit
    elif engine.kind == "ray":
        with _ray(engine) as submit:
            yield submit
    else:
        from joblib.externals.loky import get_reusable_executor

        # Fresh processes: a fork would inherit the compiled code's threads in an unknown state.
        yield get_reusable_executor(max_workers=max(1, jobs), timeout=60).submit


@contextlib.contextmanager
def _dask(engine: Engine) -> Iterator[Submit]:
    try:
        from distributed import Client
    except ImportError:
        raise _missing("dask", "distributed") from None
    try:
        client = Client(f"tcp://{engine.address}", timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as failed:
        raise StateError(
            f"engine {engine}: no scheduler answered within {CONNECT_SECONDS} s "
            f"({type(failed).__name__}); start one with `dask scheduler`, or correct the address."
        ) from None
    with client:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise StateError(
                f"engine {engine} has no workers; start some with `dask worker {engine.address}`."
            )
        yield client.get_executor(retries=RETRIES, pure=False).submit


@contextlib.contextmanager
def _ray(engine: Engine) -> Iterator[Submit]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise _missing("ray", "ray") from None
    began = not ray.is_initialized()
    if began:
        try:
            own: dict[str, Any] = {} if engine.address else {"include_dashboard": False}
            ray.init(
                f"ray://{engine.address}" if engine.address else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own,
            )
        except (ConnectionError, OSError, ValueError) as failed:
            raise StateError(
                f"engine {engine}: no cluster answered ({type(failed).__name__}); start one with "
                "`ray start --head`, or correct the address."
            ) from None
    task = ray.remote(max_retries=RETRIES)(_called)
    try:
        yield lambda function, *values: task.remote(function, *values).future()
    finally:
        if began:
            ray.shutdown()


def _called(function: Callable[..., Any], *values: Any) -> Any:
    return function(*values)


def _missing(extra: str, package: str) -> InputError:
    return InputError(
        f"engine {extra!r} needs the package {package}; install it with "
        f"`pip install 'tacenda[{extra}]'`."
    )


def _lost(engine: Engine) -> tuple[type[BaseException], ...]:
    """What an executor raises when workers died under their calls."""
    if engine.kind == "dask":
        from distributed.scheduler import KilledWorker

        return (KilledWorker,)
    if engine.kind == "ray":
        from ray.exceptions import NodeDiedError, WorkerCrashedError

        return (WorkerCrashedError, NodeDiedError)
    return (BrokenProcessPool,)


def _gone(engine: Engine) -> tuple[type[BaseException], ...]:
    """What it raises when the cluster itself is away."""
    if engine.kind == "dask":
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError

        return (FutureCancelledError, CommClosedError, CancelledError)
    if engine.kind == "ray":
        from ray.exceptions import RaySystemError

        return (ConnectionError, RaySystemError)
    return ()


def _probe(engine: Engine, submit: Submit, folder: Path | None) -> None:
    """Whether a worker runs this program and, if calls write, does so where this process reads."""
    from tacenda.content import program

    found = None if folder is None else folder.resolve() / f".{uuid.uuid4().hex}"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        theirs = submit(_tried, None if found is None else str(found)).result(timeout=60)
    except ImportError as absent:
        raise StateError(
            f"engine {engine}: a worker cannot load this program ({absent}); install the same "
            "version of tacenda where the workers run."
        ) from None
    seen = found is None or found.is_file()
    if found is not None:
        found.unlink(missing_ok=True)
    if theirs != program():
        raise StateError(
            f"engine {engine}: a worker runs another version of tacenda, Python, numpy, scipy or "
            "numba; install the same ones everywhere, or results would differ."
        )
    if not seen:
        raise StateError(
            f"engine {engine}: a worker does not write where this process reads, {folder}; use a "
            "folder that all machines share (--folder, --out)."
        )


def _tried(path: str | None) -> Any:
    from tacenda.content import program

    if path is not None:
        with contextlib.suppress(OSError):  # the caller looks for the file
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text("seen")
    return program()
