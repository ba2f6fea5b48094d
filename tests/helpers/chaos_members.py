"""Members under bad conditions, as processes that end as `tacenda node run` does: with its exit
code and the sentence that the operator reads."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from node_stage import Crowd, simulated
from tacenda_node.setup.rehearse import Stage


def command(options: dict[str, Any], output: str) -> None:
    """What `tacenda node run` does with the settings; the words go to `output`."""
    from tacenda.cli import exits
    from tacenda_node.operate.settings import NodeSettings
    from tacenda_node.peer.run import run_node
    from tacenda_node.peer.watchdog import Stopped

    with open(output, "a", encoding="utf-8") as out:
        try:
            run_node(NodeSettings(**options))
        except Stopped as stopped:
            print(stopped, file=out, flush=True)
            os._exit(exits.INTERRUPTED)
        except BaseException as error:
            print(f"tacenda: {exits.sentence_of(error)}", file=out, flush=True)
            os._exit(exits.code_of(error))


def limited(options: dict[str, Any], output: str, what: str, more: int) -> None:
    """A member that may have only `more` of a resource than it has when it starts."""
    number = getattr(resource, what)
    used = 0
    if what == "RLIMIT_AS":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(number, (used + more, used + more))
    command(options, output)


def elsewhere(options: dict[str, Any], output: str, environment: dict[str, str]) -> None:
    """A member whose operator has another language, time zone or decimal comma."""
    import locale

    os.environ.update(environment)
    time.tzset()
    for name in (environment.get("LC_ALL", "C"), "C"):
        try:
            locale.setlocale(locale.LC_ALL, name)
            break
        except locale.Error:  # not installed on this machine
            continue
    command(options, output)


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("CLOCK_SHIFT"), "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, at);
    if (clock == CLOCK_REALTIME) at->tv_sec += shift();
    return done;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def with_clock(stage: Stage, name: str, shift: Path) -> subprocess.Popen[bytes]:
    """`tacenda node run` of one member whose clock is wrong by the seconds in the file `shift`,
    which may change while it runs; a machine's other clock, that never jumps, stays as it is."""
    source, library = shift.with_suffix(".c"), shift.with_suffix(".so")
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    words = ["tacenda" if w == "tacenda_node" else w for w in stage.command(name)]
    env = {**os.environ, "LD_PRELOAD": str(library), "CLOCK_SHIFT": str(shift)}
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def same_bits(crowd: Crowd, models: np.ndarray, seed: int = 3) -> None:
    """The run gave the simulator's bits, and every release was charged, and charged once."""
    np.testing.assert_allclose(models, simulated(crowd.stage, seed=seed), rtol=0, atol=1e-12)
    charged_once(crowd, crowd.names)


def charged_once(crowd: Crowd, names: list[str]) -> None:
    """Every release of the run is in the members' states once."""
    contract = crowd.stage.contract
    steps = contract.algorithm.model_dump().get("inner_steps", 1)
    for name in names:
        found = Counter(charge[:3] for charge in crowd.charges(name))
        assert set(found.values()) == {1}
        assert len(found) == steps * contract.rounds


def nothing_charged(crowd: Crowd, name: str) -> None:
    """The member stopped before its records cost anything."""
    if (crowd.folder(name) / "state" / "node.sqlite").exists():
        assert crowd.charges(name) == []
