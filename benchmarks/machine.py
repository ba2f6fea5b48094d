"""What a figure was measured on: processor, cores, memory, its measured bandwidth, versions."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

LIBRARIES = ("numpy", "scipy", "numba", "networkx", "mpi4py")


def machine() -> dict[str, Any]:
    """Model of the processor, cores this process may use, memory, bandwidth, versions."""
    import psutil

    return {
        "processor": processor(),
        "cores": cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "bandwidth_gb_s": round(read_bandwidth() / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in LIBRARIES},
    }


def processor() -> str:
    """The model's name, as the system gives it."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit of this checkout, with a plus where files differ from it; empty outside of one."""
    here = Path(__file__).parent
    told = [
        subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False)
        for words in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "../src"])
    ]
    return told[0].stdout.strip() + ("+" if told[1].stdout.strip() else "")


def read_bandwidth(megabytes: int = 512, turns: int = 20) -> float:
    """Bytes a second at which all cores together read a table that no cache holds: the best turn of
    a sum, a part for each core."""
    best = float("inf")
    with reader(megabytes * 2**20) as read:
        for _ in range(turns):
            begin = time.perf_counter()
            read()
            best = min(best, time.perf_counter() - begin)
    return megabytes * 2**20 / best


@contextmanager
def reader(count: int, megabytes: int = 512) -> Iterator[Callable[[], None]]:
    """A call that reads so many bytes from a table that no cache holds, over and over if need be:
    sums, a part for each core."""
    table = np.ones(megabytes * 2**17)
    passes, rest = divmod(count // table.itemsize, len(table))
    whole, some = (np.array_split(part, cores()) for part in (table, table[:rest]))
    with ThreadPoolExecutor(cores()) as pool:

        def read() -> None:
            for _ in range(passes):
                list(pool.map(np.sum, whole))
            list(pool.map(np.sum, some))

        yield read


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
