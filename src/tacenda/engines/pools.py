"""The engines themselves, each opened as a `Pool`: loky, Dask, Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from tacenda.engines.engine import Engine
from tacenda.errors import EngineError, InputError

RETRIES = 3
CONNECT_SECONDS = 10
GRACE_SECONDS = 3.0  # in which interrupted processes of this machine may write a checkpoint

Errors = tuple[type[BaseException], ...]


class Pool(ABC):
    """An open engine.

    lost    what a job raises whose worker died
    losses  for how many dead workers that stands
    gone    what it raises when the cluster itself is away
    most    so many jobs at a time; None where the engine keeps the others waiting itself
    threads of the compiled code in each job
    remedy  how to get workers
    """

    lost: Errors = ()
    losses = 1
    gone: Errors = ()
    most: int | None = None
    threads = 1
    remedy = ""

    @abstractmethod
    def submit(self, function: Any, *values: Any) -> Future[Any]:
        """Begin function(*values) on a worker."""

    def result(self, job: Future[Any]) -> Any:
        """What came of a job that has ended, or the error that it ended with."""
        return job.result()

    def packed(self, value: Any) -> Any:
        """The value as bytes that are read after a worker was found to run this program; as it is
        where no worker could run another."""
        return value

    def share(self, packed: Any) -> Any:
        """What stands for it in `submit`, so that it is sent once."""
        return packed

    def withdraw(self, jobs: Sequence[Future[Any]]) -> None:
        """Do not begin what has not begun, and stop what can be stopped."""
        for job in jobs:
            job.cancel()

    def workers(self) -> int:
        """How many there are now; raises what `gone` says."""
        return 1


@contextlib.contextmanager
def opened(engine: Engine, jobs: int) -> Iterator[Pool]:
    """The engine, ready for jobs."""
    if engine.kind == "dask":
        with _dask(engine) as pool:
            yield pool
    elif engine.kind == "ray":
        yield _ray(engine)
    else:
        yield _Loky(max(1, jobs))


class _Loky(Pool):
    """Fresh processes of this machine: a fork would inherit the compiled code's threads in an
    unknown state. One that dies takes all jobs with it, so no more are given than are at work."""

    lost = (BrokenProcessPool,)

    def __init__(self, jobs: int) -> None:
        self.most, self.threads = jobs, max(1, (os.cpu_count() or 1) // jobs)

    def submit(self, function: Any, *values: Any) -> Future[Any]:
        try:
            return self._executor().submit(function, *values)
        except RuntimeError:  # broken or shut down since: the next one is new
            _processes.clear()
            return self._executor().submit(function, *values)

    def _executor(self) -> Any:
        """Kept from one call of `run_calls` to the next. Not the one that joblib keeps: what is
        ours lacks what joblib adds to its own, and joblib would take it for its own."""
        from joblib.externals.loky import ProcessPoolExecutor

        assert self.most is not None
        if self.most not in _processes:
            for other in _processes.values():
                other.shutdown()
            _processes.clear()
            _processes[self.most] = ProcessPoolExecutor(self.most, timeout=60)
        return _processes[self.most]

    def withdraw(self, jobs: Sequence[Future[Any]]) -> None:
        """Ctrl-C in a terminal reaches these processes too, and they stop after a round. What does
        not stop is ended, or this program would wait for it: its last checkpoint is whole."""
        super().withdraw(jobs)
        if wait(jobs, timeout=GRACE_SECONDS).not_done:
            self._executor().shutdown(kill_workers=True)
            _processes.clear()


_processes: dict[int, Any] = {}  # the processes of this machine, by their number


class _Dask(Pool):
    """A job is lost after as many workers as the scheduler's `allowed-failures` says, 3 by default;
    it counts all jobs of a dead worker, not only the one that ended it."""

    losses = RETRIES

    def __init__(self, client: Any, address: str) -> None:
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        self._client = client
        self._tasks: dict[Future[Any], Any] = {}
        self.lost = (KilledWorker,)
        self.gone = (FutureCancelledError, CommClosedError, CancelledError)
        self.remedy = f"start some with `dask worker {address}`"

    def submit(self, function: Any, *values: Any) -> Future[Any]:
        # Dask's own executor fetches results in its event loop, which complains of every one that
        # is withdrawn meanwhile.
        job: Future[Any] = Future()
        self._tasks[job] = task = self._client.submit(function, *values, pure=False)
        task.add_done_callback(lambda _: job.set_result(None))
        return job

    def result(self, job: Future[Any]) -> Any:
        return self._tasks.pop(job).result()

    def withdraw(self, jobs: Sequence[Future[Any]]) -> None:
        """What is at work goes on to its end, which is stored."""
        with contextlib.suppress(*self.gone):
            self._client.cancel([self._tasks[job] for job in jobs])

    def packed(self, value: Any) -> Any:
        from cloudpickle import dumps  # also classes of a script or a notebook

        return dumps(value)

    def share(self, packed: Any) -> Any:
        # Not scattered: a worker that holds the only copy may be lost, and a call is made again.
        return self._client.submit(bytes, packed, pure=False)

    def workers(self) -> int:
        try:
            return len(self._client.nthreads())
        except TimeoutError:
            return 0


@contextlib.contextmanager
def _dask(engine: Engine) -> Iterator[Pool]:
    try:
        from distributed import Client
    except ImportError:
        raise _missing("dask", "distributed") from None
    import dask

    # A scheduler speaks first, unless by TLS; its client would wait for ever for one that does not.
    _reach(engine, "`dask scheduler`", dask.config.get("distributed.comm.default-scheme") == "tcp")
    try:
        client = Client(engine.address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as failed:
        raise EngineError(
            f"engine {engine}: no scheduler of Dask answered within {CONNECT_SECONDS} s "
            f"({type(failed).__name__}); correct the address."
        ) from None
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)  # a lost scheduler is told in a sentence, not in tracebacks
    try:
        with client:
            yield _Dask(client, engine.address)
    finally:
        log.setLevel(before)


class _Ray(Pool):
    losses = RETRIES
    remedy = "start some with `ray start --address ...`"

    def __init__(self) -> None:
        import ray
        from ray import exceptions

        self._ray = ray
        self._tasks: dict[Future[Any], Any] = {}
        self._task = ray.remote(max_retries=RETRIES)(_plainly)
        self.lost = (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
            exceptions.ObjectLostError,
        )
        self.gone = (ConnectionError, exceptions.RaySystemError)

    def submit(self, function: Any, *values: Any) -> Future[Any]:
        task = self._task.remote(function, *values)
        job = task.future()
        self._tasks[job] = task
        return job

    def packed(self, value: Any) -> Any:
        return self._ray.cloudpickle.dumps(value)

    def share(self, packed: Any) -> Any:
        return self._ray.put(packed)

    def withdraw(self, jobs: Sequence[Future[Any]]) -> None:
        for job in jobs:
            if self._ray.is_initialized():  # otherwise Ray would begin another cluster to ask it
                with contextlib.suppress(*self.gone):
                    self._ray.cancel(self._tasks[job])

    def workers(self) -> int:
        if not self._ray.is_initialized():
            raise ConnectionError("the client of Ray has given up")
        try:
            return int(self._ray.cluster_resources().get("CPU", 0))
        except Exception as failed:  # gRPC's own kinds, ValueError of a closed channel, ...
            raise ConnectionError(str(failed)) from failed


_ray_engine: Engine | None = None  # where this process has connected to by itself


def _ray(engine: Engine) -> Pool:
    """Connected until this process ends: to start Ray takes seconds."""
    global _ray_engine
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise _missing("ray", "ray") from None
    if ray.is_initialized() and _ray_engine not in (None, engine):
        ray.shutdown()
    if not ray.is_initialized():
        if engine.address:
            _reach(engine, "`ray start --head`", speaks=False)
        own: dict[str, Any] = {} if engine.address else {"include_dashboard": False}
        try:
            ray.init(
                f"ray://{engine.address}" if engine.address else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **own,
            )
        except (ConnectionError, OSError, ValueError, RuntimeError) as failed:
            raise EngineError(
                f"engine {engine}: no cluster of Ray answered ({' '.join(str(failed).split())}); "
                "correct the address; where the cluster asks for a token, set RAY_AUTH_MODE=token "
                "and RAY_AUTH_TOKEN."
            ) from None
        for name in ("ray.util.client", "ray.util.client.logsclient"):  # told in a sentence
            logging.getLogger(name).setLevel(logging.CRITICAL)
        _ray_engine = engine
    return _Ray()


def _plainly(function: Any, *values: Any) -> Any:
    return function(*values)


def _reach(engine: Engine, starter: str, speaks: bool) -> None:
    """Whether anybody listens at the address, which the libraries take long to find out."""
    try:
        with socket.create_connection(engine.place, timeout=CONNECT_SECONDS) as there:
            if speaks and not there.recv(1):
                raise ConnectionError("the connection was closed")
    except OSError as failed:
        raise EngineError(
            f"engine {engine}: no answer from there ({failed}); start one with {starter}, or "
            "correct the address."
        ) from None


def _missing(extra: str, package: str) -> InputError:
    return InputError(
        f"engine {extra!r} needs the package {package}; install it with "
        f"`pip install 'tacenda[{extra}]'`."
    )
