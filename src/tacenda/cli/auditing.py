"""`tacenda audit`: attack a run on neighbouring data sets, and bound its epsilon from below."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacenda.cli import exits, flags, show


def audit(
    algorithm: Annotated[str, typer.Argument(help="Its name (`tacenda algorithms`).")],
    hyper: flags.Hyper = None,
    rounds: Annotated[int, typer.Option("--rounds", "-T", help="Rounds of each run.")] = 10,
    epsilon: flags.Epsilon = None,
    delta: Annotated[float, typer.Option("--delta", "-d", help="Chance that the bound fails.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(help="'replace-one' or 'add-remove'.")] = "replace-one",
    mode: Annotated[str, typer.Option(help="'sound', or 'as-published' to attack the paper's own noise.")] = "sound",
    noise_multiplier: Annotated[
        float | None, typer.Option("--noise-multiplier", "-z", help="Attack this Gaussian noise.")
    ] = None,
    round_epsilon: Annotated[float | None, typer.Option(help="Attack pure rounds of this epsilon.")] = None,
    trials: Annotated[int, typer.Option(help="Runs in total, half of them in each world.")] = 10_000,
    records: Annotated[int, typer.Option(help="Records on each node of the staged problem.")] = 10,
    dim: Annotated[int | None, typer.Option(help="Features of the staged problem; by default what shows best.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; the result does not depend on it.")] = 1,
    checkpoint: Annotated[Path | None, typer.Option(help="A file that keeps the finished trials.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the result as JSON.")] = None,
    as_json: flags.Json = False,
    quiet: flags.Quiet = False,
) -> None:
    """Attack many runs on two data sets that differ in one record, seeing every message; a claim that fails is called broken.

    Example: tacenda audit dvp --mode as-published --epsilon 1 --delta 0 --rounds 1

    Exit code 3 says that the claim is broken; 0 that the attack could not refute it, which proves nothing.
    """
    from tacenda.algorithms.registry import by_name
    from tacenda.audit.attack import audit as attack
    from tacenda.config.read import assignments

    values = assignments(hyper or [], "algorithm").get("algorithm", {})
    privacy = _privacy(epsilon, delta, adjacency, mode, noise_multiplier, round_epsilon)
    found = attack(
        by_name(algorithm, **values), privacy=privacy, rounds=rounds, records=records, dim=dim, trials=trials,
        confidence=confidence, seed=seed, jobs=jobs, checkpoint=checkpoint, resume=resume, progress=not quiet,
    )  # fmt: skip
    if out is not None:
        found.save(out)
    if as_json:
        show.as_json(found.to_plain())
    else:
        print(found.summary())
        if found.why:
            print(f"Why: {found.why}")
    if found.broken:
        raise typer.Exit(exits.PRIVACY)


def _privacy(
    epsilon: float | None, delta: float, adjacency: str, mode: str, noise_multiplier: float | None, round_epsilon: float | None
) -> Any:
    from tacenda.errors import InputError
    from tacenda.privacy.settings import Privacy

    given = noise_multiplier is not None or round_epsilon is not None
    if given and (epsilon is not None or mode != "sound"):
        raise InputError("audit takes either --epsilon (with --mode) or the noise itself, not both.")
    if given:
        return Privacy.from_noise(
            noise_multiplier=noise_multiplier, round_epsilon=round_epsilon, delta=delta, adjacency=adjacency
        )
    return Privacy(1.0 if epsilon is None else epsilon, delta, adjacency, mode)
