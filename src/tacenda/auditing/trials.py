"""Many trials: in portions, in this process or in several, kept in a file so that an interrupted
audit goes on.

A trial's outcome depends on the seed and its number only, so neither the portions nor the number of
processes matter.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np

from tacenda._types import Array
from tacenda.auditing.portion import run_portion, trials_at_once
from tacenda.auditing.wiretap import Portion
from tacenda.auditing.worlds import Script
from tacenda.engines import Call, Workers, run_calls
from tacenda.errors import StateError
from tacenda.formats.files import checked_output, replacing
from tacenda.runtime.interrupt import BetweenRounds
from tacenda.runtime.progress import Progress

FORMAT = "tacenda-audit-2"
SAVE_SECONDS = 5.0
SHARES = 64  # into so many parts the trials are cut for a cluster, whose size is not known


def run_trials(
    script: Script,
    trials: int,
    workers: Workers,
    progress: str | bool,
    checkpoint: str | Path | None,
    resume: bool,
) -> Array:
    """(trials, attacks) the scores of every trial."""
    file = None if checkpoint is None else checked_output(checkpoint)
    scores = _begin(file, resume, script, trials)
    shares = workers.jobs if workers.engine.is_local else SHARES
    size = min(trials_at_once(script), max(2, -(-trials // shares)))
    todo = [
        (a, min(size, trials - a))
        for a in range(0, trials, size)
        if np.isnan(scores[a : a + size]).any()
    ]
    saved = time.monotonic()
    with (
        Progress(progress, f"audit {script.spec.algorithm.name}", trials) as show,
        BetweenRounds() as interrupt,
    ):

        def beat() -> None:
            if interrupt.asked:
                raise KeyboardInterrupt(f"audit stopped after {_done(scores)} of {trials} trials")
            show(_done(scores))

        def take(position: int, portion: Portion) -> None:
            nonlocal saved
            first, count = todo[position]
            scores[first : first + count] = portion.scores
            if file is not None and time.monotonic() - saved > SAVE_SECONDS:
                _write(file, script, scores)
                saved = time.monotonic()
            beat()

        try:
            if workers.here(len(todo)):
                for position, (first, count) in enumerate(todo):
                    take(position, run_portion(script, first, count))
            else:
                calls = [Call(f"trials {a} to {a + n - 1}", run_portion, (a, n)) for a, n in todo]
                run_calls(workers.engine, calls, workers.jobs, take, shared=script, beat=beat)
        finally:
            # whatever ends the audit, also a second Ctrl-C or a lost process,
            # finished trials are kept
            if file is not None:
                _write(file, script, scores)
    return scores


def _done(scores: Array) -> int:
    return int((~np.isnan(scores[:, 0])).sum())


def _identity(script: Script) -> str:
    """What must be equal for stored scores to belong to this audit."""
    digest = hashlib.blake2b(digest_size=16)
    settings = {
        "algorithm": script.spec.algorithm.to_plain(),
        "rounds": script.spec.rounds,
        "seed": script.seed,
        "keyed": script.keyed,
        "node": script.node,
        "mixing": script.spec.method.mixing,
        "adjacency": script.spec.facts.adjacency,
        "constants": repr(script.spec.facts.constants),
        "charges": [
            (c.kind.kind, k, {p: v.tolist() for p, v in c.parameters.items()})
            for c, k in script.calibration.reserved
        ],
        "tolerance": script.spec.facts.tolerance,
    }
    digest.update(json.dumps(settings, sort_keys=True).encode())
    arrays = [
        script.rows,
        script.labels,
        script.offsets,
        script.start,
        script.spec.topology.edges,
        script.spec.facts.sizes,
    ]
    if script.attacks is not None:
        arrays += [script.attacks.edges, *script.attacks.forms]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _begin(file: Path | None, resume: bool, script: Script, trials: int) -> Array:
    scores = np.full((trials, 1 if script.attacks is None else len(script.attacks.names)), np.nan)
    if file is None or not file.exists():
        return scores
    if not resume:
        raise StateError(
            f"checkpoint {file} exists already; pass resume=True to continue, or another name."
        )
    try:
        with np.load(file, allow_pickle=False) as stored:
            mine, kept = str(stored["identity"]), stored["scores"]
    except (OSError, ValueError, KeyError) as damaged:
        raise StateError(f"checkpoint {file} cannot be read: {damaged}.") from None
    if mine != f"{FORMAT} {_identity(script)}":
        raise StateError(
            f"checkpoint {file} belongs to another audit: settings, data or seed differ; "
            "use another name."
        )
    shared = min(trials, len(kept))
    scores[:shared] = kept[:shared]
    return scores


def _write(file: Path, script: Script, scores: Array) -> None:
    with replacing(file) as part, part.open("wb") as out:
        np.savez(out, identity=np.array(f"{FORMAT} {_identity(script)}"), scores=scores)
