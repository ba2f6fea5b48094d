"""Which algorithms a run plays, with how many rounds each: named by the user, or chosen by the
planner from public facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import by_name, prepared
from tacenda.algorithms.whitened import Whitened
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.questions.facts import Facts
from tacenda.runs.sections import AlgorithmSection, ComparedSection, DataSection, RunConfig
from tacenda.terms.method import Method


@dataclass(frozen=True)
class Choice:
    """A method of a run, and how it is called in tables."""

    label: str
    method: Method


def choices(
    config: RunConfig, facts: Facts, topology: Topology, privacy: Privacy | None
) -> list[Choice]:
    """The algorithms of a comparison, or the one of [algorithm]; labels are distinct."""
    sections: list[AlgorithmSection] = list(config.compare) or [config.algorithm]
    found = [_choice(section, config, facts, topology, privacy) for section in sections]
    labels = [choice.label for choice in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"two algorithms of the comparison are both called {label!r}; "
                "give one of them a label of its own."
            )
    return found


def _choice(
    section: AlgorithmSection,
    config: RunConfig,
    facts: Facts,
    topology: Topology,
    privacy: Privacy | None,
) -> Choice:
    own = section if isinstance(section, ComparedSection) else ComparedSection()
    fixed = {**config.run.fixed_settings(), **own.fixed_settings()}
    algorithm = _algorithm(section, config)
    if algorithm is None:
        chosen = _automatic(config, facts, topology, privacy, fixed.get("rounds"))
    else:
        if (
            privacy is not None
            and privacy.coalition is None
            and algorithm.traits.shared_noise is not None
        ):
            raise InputError(
                f"{algorithm.title} shares noise between neighbours, "
                "so its promise needs a limit on how many members combine what they know; "
                "give privacy.coalition a number, or use an algorithm with noise of its "
                "own (dpdda, cdpadmm)."
            )
        rounds = fixed.get("rounds")
        chosen = _named(section, config, algorithm, facts, topology, privacy, rounds)
    return Choice(_file_name(own.label or chosen.label), replace(chosen.method, **fixed))


def resolved(config: RunConfig, chosen: list[Choice]) -> RunConfig:
    """The same configuration with every "auto" of its algorithms replaced by what was chosen."""
    found = [choice.method.to_plain() for choice in chosen]
    tables = [values.pop("algorithm") for values in found]
    plain = config.to_plain()
    if config.compare:
        plain.pop("prepare")  # each table says it by itself
        plain["compare"] = [
            {**table, "label": c.label, **values}
            for table, values, c in zip(tables, found, chosen, strict=True)
        ]
    else:
        wrapped = chosen[0].method.algorithm
        if isinstance(wrapped, Whitened):
            plain["algorithm"] = wrapped.algorithm.to_plain()
            plain["prepare"] = wrapped.whitening.to_plain()
        else:
            plain["algorithm"] = tables[0]
        plain["run"].update(found[0])
    return RunConfig.model_validate(_without_none(plain))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list) else value


def _label_of(algorithm: Algorithm) -> str:
    """The algorithm's name in tables, the wrapped one's included."""
    if isinstance(algorithm, Whitened):
        return f"{algorithm.name}-{algorithm.algorithm.name}"
    return algorithm.name


def _named(
    section: AlgorithmSection,
    config: RunConfig,
    algorithm: Algorithm,
    facts: Facts,
    topology: Topology,
    privacy: Privacy | None,
    rounds: int | None,
) -> Choice:
    """What the user named, with what the user left open chosen by the planner; by the method's own
    defaults where nothing is planned: without noise, with noise that was given, or a paper's."""
    if privacy is None or privacy.noise or privacy.mode != "sound" or privacy.delta == 0:
        return Choice(_label_of(algorithm), Method.usual(algorithm, topology))
    from tacenda.planning import plan_named

    found = plan_named(
        section.name,
        facts,
        topology,
        privacy,
        rounds=rounds,
        prepare=config.prepare.preparation,
        given=section.hyperparameters,
        public=public_sample(config.data, config.problem.model),
    )
    return Choice(_label_of(algorithm), found)


def _automatic(
    config: RunConfig, facts: Facts, topology: Topology, privacy: Privacy | None, rounds: int | None
) -> Choice:
    if privacy is None:
        from tacenda.planning import without_privacy

        return Choice("auto", without_privacy(facts, rounds))
    return planned(
        facts, topology, privacy, rounds, public_sample(config.data, config.problem.model)
    )


def check_algorithms(config: RunConfig) -> None:
    """Refuse names and hyperparameters that no run could take."""
    sections: list[AlgorithmSection] = list(config.compare) or [config.algorithm]
    for section in sections:
        _algorithm(section, config)


def _algorithm(section: AlgorithmSection, config: RunConfig) -> Algorithm | None:
    """The named algorithm with its hyperparameters; None for the planner's choice."""
    if section.name != "auto":
        return prepared(
            by_name(section.name, **section.hyperparameters), config.prepare.preparation
        )
    if config.prepare.preparation is not None:
        raise InputError(
            "prepare must be left out with algorithm 'auto', which decides it by itself; "
            "or name the algorithm, for instance 'treegd'."
        )
    if section.hyperparameters:
        first = next(iter(section.hyperparameters))
        raise InputError(
            f"algorithm 'auto' chooses its own hyperparameters, so {first!r} must be left out; "
            "or name one."
        )
    return None


def check_public(config: RunConfig) -> None:
    """Refuse a public sample that nothing would be tuned on."""
    if config.data.public is None:
        return
    from tacenda.planning.named import WAYS

    names = [section.name for section in config.compare] or [config.algorithm.name]
    if not config.privacy.private or not {"auto", *WAYS} & set(names):
        what = f"algorithm {names[0]!r}" if config.privacy.private else "a run without privacy"
        raise InputError(
            "data.public (--public) serves a private run whose total step is planned, and tunes "
            f"it; leave it out with {what}."
        )


def public_sample(data: DataSection, model: str = "linear") -> tuple[Any, Any] | None:
    """The records (X, y) of the file that is declared public, encoded as the private ones are."""
    if data.public is None:
        return None
    from tacenda.runs.private_run import load

    file = data.model_copy(update={"file": data.public, "public": None})
    found, _ = load(file, model=model)
    return found.X, found.y


def planned(
    facts: Facts,
    topology: Topology,
    privacy: Privacy,
    rounds: int | None,
    public: tuple[Any, Any] | None = None,
) -> Choice:
    """The planner's choice for these public facts; `rounds` fixes their number, and on a public
    sample the step is tuned."""
    from tacenda.planning import plan_facts

    found = plan_facts(facts, topology, privacy, rounds=rounds)
    found = found if public is None else found.tuned(public)
    return Choice("auto", replace(found.method, reasons=tuple(found.reasons)))


def _file_name(label: str) -> str:
    """Labels name files, so they hold letters, digits, dots, hyphens and underscores only."""
    clean = "".join(c if c.isalnum() or c in "._-" else "-" for c in label.strip()).strip("-.")
    if not clean:
        raise InputError(
            f"a label must hold letters or digits, not {label!r}; for instance 'ipadmm-short'."
        )
    return clean
