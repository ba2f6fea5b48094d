"""`tacenda account` and `calibrate`: from noise to (epsilon, delta) and back; public facts only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacenda.cli import flags, show
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.runs.cost import Cost
    from tacenda.runs.sections import RunConfig

Inner = Annotated[
    int | None,
    typer.Option(help="Inner steps of a round (ipadmm): the same as --hyper inner_steps=..."),
]
Records = Annotated[
    int | None, typer.Option(help="Records on each node (452 unless the file says otherwise).")
]
Features = Annotated[
    int | None, typer.Option(help="Features (104 unless the file says otherwise).")
]
Classes = Annotated[int | None, typer.Option(help="Classes of the label; 0 for a regression.")]
Plot = Annotated[
    Path | None,
    typer.Option(
        help="Draw the privacy curve and the trade-off: a .svg, .png, .pdf or .html file."
    ),
]

METHOD = {"config": flags.Config, **flags.METHOD, "inner": Inner, "rounds": flags.OF_RUN["rounds"]}
NOISE = ("noise_multiplier", "round_epsilon")  # given, or found for a budget
BUDGET = ("epsilon", "mode")
RELATION = {k: v for k, v in flags.PRIVACY.items() if k not in (*NOISE, *BUDGET, "privacy")}
SHAPE = {
    **{name: flags.NETWORK[name] for name in ("nodes", "graph", "partition", "sizes")},
    "records": Records,
    "features": Features,
    "classes": Classes,
    **flags.PROBLEM,
    "settings": flags.Settings,
}
SHOWN = {"plot": Plot, "as_json": flags.Json}
ASSUMED = {"nodes": 10, "records": 452, "features": 104}


@flags.takes(
    {**METHOD, **{name: flags.PRIVACY[name] for name in NOISE}, **RELATION, **SHAPE, **SHOWN}
)
def account(given: flags.Given) -> None:
    """Compute what a run guarantees from its noise. No data is read.

    Example: tacenda account --algorithm ipadmm --rounds 100 --inner 10 --noise-multiplier 118
    --delta 1e-5
    """
    from tacenda.errors import InputError

    found = config_of(given)
    if (
        found.privacy.noise_multiplier is None
        and found.privacy.round_epsilon is None
        and given["config"] is None
    ):
        raise InputError(
            "account needs the noise: --noise-multiplier for Gaussian releases or "
            "--round-epsilon for pure rounds; `tacenda calibrate` goes from an "
            "epsilon to the noise."
        )
    _answer(found, given["plot"], given["as_json"])


@flags.takes(
    {**METHOD, **{name: flags.PRIVACY[name] for name in BUDGET}, **RELATION, **SHAPE, **SHOWN}
)
def calibrate(given: flags.Given) -> None:
    """Compute the noise of every release from (epsilon, delta) of the whole run. No data is read.

    Example: tacenda calibrate --algorithm cdpadmm --epsilon 1 --delta 1e-5 --rounds 200
    """
    _answer(config_of(given), given["plot"], given["as_json"])


def config_of(given: flags.Given) -> RunConfig:
    """The configuration; without a file, only the shape of the data is used."""
    sections = flags.sections(given)
    file, algorithm, per_node, inner = (
        given[name] for name in ("config", "algorithm", "records", "inner")
    )
    network, data = sections["network"], sections["data"]
    data["classes"] = given["classes"]
    if file is None:
        if algorithm is not None and algorithm.lower().replace("-", "") == "dpadmm":
            network["graph"] = network["graph"] or "star"
        n = _node_count(network)
        data["records"] = n * (per_node or ASSUMED["records"])
        data["features"] = data["features"] or ASSUMED["features"]
    elif per_node is not None:
        from tacenda.errors import InputError

        raise InputError(
            "--records is for an account without a file, whose data says how many there are; "
            "leave it out."
        )
    hyper = [*(given["hyper"] or []), *([] if inner is None else [f"inner_steps={inner}"])]
    settings = given["settings"]
    found = flags.assemble(
        file, sections=sections, hyper=hyper, settings=settings, algorithm=algorithm
    )
    return found.model_copy(update={"compare": []}) if algorithm is not None else found


def _node_count(network: dict[str, Any]) -> int:
    from tacenda.runs.sections import NetworkSection
    from tacenda.runs.shape import node_count

    if network["nodes"] is None and ":" not in (network["graph"] or ""):
        network["nodes"] = ASSUMED["nodes"]
    return node_count(NetworkSection(**{k: v for k, v in network.items() if v is not None}))


def _answer(config: RunConfig, plot: Path | None, as_json: bool) -> None:
    from tacenda.runs.cost import cost, public_run

    public = public_run(config)
    costs = [cost(public, choice) for choice in public.choices]
    if plot is not None:
        from tacenda.cli.curve_plot import draw

        draw({c.choice.label: c.statement for c in costs if c.statement is not None}, plot)
    sizes = public.shape.sizes
    assumed: dict[str, Any] = {
        "nodes": public.topology.n,
        "graph": public.topology.name,
        "records_per_node": [int(sizes.min()), int(sizes.max())],
        "features": public.shape.features,
        "loss": public.facts.constants.loss.name,
        "regulariser": public.facts.constants.regulariser.name,
        "strength": public.facts.constants.stated_strength,
    }
    if as_json:
        drawn = None if plot is None else str(plot)
        show.as_json({"facts": assumed, "runs": [c.to_plain() for c in costs], "plot": drawn})
        return
    for c in costs:
        _print(c)
    nodes = (
        f"{counted(assumed['nodes'], 'node')} ({assumed['graph']}) "
        f"of {sizes.min()} to {counted(sizes.max(), 'record')}"
    )
    print(
        f"Public facts used: {nodes}, {counted(assumed['features'], 'feature')}, "
        f"{assumed['loss']} loss. No data was read."
    )
    if plot is not None:
        print(f"The curve is drawn in {plot}.")


def _print(c: Cost) -> None:
    from tacenda.cli.running import noise_words

    print(f"{c.choice.method.algorithm.title}, {counted(c.choice.method.rounds, 'round')}")
    if c.statement is None:
        print("  adds no noise and promises nothing\n")
        return
    s, curve = c.statement, c.statement.curve()
    most = "" if s.exact else "at most "
    print(
        f"  epsilon    {most}{s.epsilon:.6g} at delta {s.delta:g}, {s.adjacency}, by {s.accountant}"
    )
    if s.claimed is not None:
        print(
            f"  claimed    {s.claimed[0]:.6g} at delta {s.claimed[1]:g} as published. {s.why or ''}"
        )
    if curve.coalition is not None:
        print(f"  only if    {'; '.join(curve.conditions[1:])}")
    if curve.mu is not None:
        print(f"  mu         {curve.mu:.6g} (Gaussian DP)")
    print(f"  releases   {len(s.charges)} per node, noise {noise_words(s)}")
    print(f"  worst node {s.worst_node}")
    print(f"  sent       {counted(c.messages, 'message')}, {show.size(c.bytes)}\n")
