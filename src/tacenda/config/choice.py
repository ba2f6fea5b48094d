"""Which algorithms a run plays, with how many rounds each: named by the user, or chosen by the
planner from public facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacenda import checks
from tacenda.algorithms.base import Algorithm
from tacenda.algorithms.registry import by_name
from tacenda.algorithms.whitening import Whitened, prepared
from tacenda.config.sections import AlgorithmSection, ComparedSection, DataSection, RunConfig
from tacenda.errors import InputError
from tacenda.graph.topology import Topology
from tacenda.privacy.settings import Privacy
from tacenda.problem.facts import Facts
from tacenda.runtime.closing import Finish, checked_finish, closing_for

if TYPE_CHECKING:
    from tacenda.planning import Plan, Settings


@dataclass(frozen=True)
class Choice:
    """One algorithm of a run: how it is called in tables, its rounds, output rule, closing mixings,
    and why it was chosen."""

    label: str
    algorithm: Algorithm
    rounds: int
    output: str | None = None
    finish_mixing: Finish = 0
    reasons: tuple[str, ...] = field(default=())


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
    rounds = config.run.rounds if own.rounds is None else own.rounds
    output = own.output or config.run.output
    algorithm = _algorithm(section, config)
    if algorithm is None:
        wanted = None if rounds == "auto" else rounds
        chosen = _automatic(config, facts, topology, privacy, wanted)
    else:
        if (
            privacy is not None
            and config.privacy.coalition == "all"
            and (algorithm.shared_noise is not None or algorithm.masks)
        ):
            raise InputError(
                f"{algorithm.title} shares noise between neighbours, "
                "so its promise needs a limit on how many members combine what they know; "
                "give privacy.coalition a number, or use an algorithm with noise of its "
                "own (dpdda, cdpadmm)."
            )
        chosen = _named(section, config, algorithm, facts, topology, privacy, rounds)
    asked = config.run.finish_mixing if own.finish_mixing is None else own.finish_mixing
    finish = chosen.finish_mixing if asked == "auto" else asked
    count = chosen.rounds if rounds == "auto" else checks.whole("run.rounds", rounds, least=1)
    return Choice(
        _file_name(own.label or chosen.label),
        chosen.algorithm,
        count,
        output or chosen.output,
        checked_finish("run.finish_mixing", finish),
        chosen.reasons,
    )


def resolved(config: RunConfig, chosen: list[Choice]) -> RunConfig:
    """The same configuration with every "auto" of its algorithms replaced by what was chosen."""
    tables = [choice.algorithm.to_plain() for choice in chosen]
    plain = config.to_plain()
    if config.compare:
        plain.pop("prepare")  # each table says it by itself
        plain["compare"] = [
            {
                **table,
                "label": c.label,
                "rounds": c.rounds,
                "output": c.output,
                "finish_mixing": c.finish_mixing,
            }
            for table, c in zip(tables, chosen, strict=True)
        ]
    else:
        only = chosen[0]
        wrapped = only.algorithm
        if isinstance(wrapped, Whitened):
            plain["algorithm"] = wrapped.algorithm.to_plain()
            plain["prepare"] = wrapped.whitening.to_plain()
        else:
            plain["algorithm"] = tables[0]
        plain["run"].update(
            rounds=only.rounds, finish_mixing=only.finish_mixing, output=only.output
        )
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
    rounds: int | str,
) -> Choice:
    """What the user named, with what the user left open chosen by the planner; by the method's own
    defaults where nothing is planned: without noise, with noise that was given, or a paper's."""
    if privacy is None or privacy.noise or privacy.mode != "sound" or privacy.delta == 0:
        finish = 0 if algorithm.agrees else closing_for(topology)
        return Choice(_label_of(algorithm), algorithm, algorithm.default_rounds, None, finish)
    from tacenda.planning import plan_named

    epsilon: Any = privacy.epsilon
    found = plan_named(
        section.name,
        facts,
        topology,
        epsilon,
        privacy.delta,
        coalition=pooled(config.privacy.coalition),
        rounds=None if isinstance(rounds, str) else rounds,
        prepare=config.prepare.preparation,
        given=section.hyperparameters,
        public=public_sample(config.data),
    )
    return _of(_label_of(algorithm), found)


def _of(label: str, found: Plan | Settings) -> Choice:
    """What the planner found, by a label."""
    return Choice(
        label,
        found.algorithm,
        found.rounds,
        found.output,
        found.finish_mixing,
        tuple(found.reasons),
    )


def _automatic(
    config: RunConfig, facts: Facts, topology: Topology, privacy: Privacy | None, rounds: int | None
) -> Choice:
    if privacy is None:
        from tacenda.planning import without_privacy

        return _of("auto", without_privacy(facts, rounds))
    return planned(
        facts, topology, privacy, config.privacy.coalition, rounds, public_sample(config.data)
    )


def check_algorithms(config: RunConfig) -> None:
    """Refuse names, hyperparameters and numbers of rounds that no run could take."""
    sections: list[AlgorithmSection] = list(config.compare) or [config.algorithm]
    for section in sections:
        own = section if isinstance(section, ComparedSection) else ComparedSection()
        rounds = config.run.rounds if own.rounds is None else own.rounds
        if rounds != "auto":
            checks.whole("run.rounds", rounds, least=1)
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


def public_sample(data: DataSection) -> tuple[Any, Any] | None:
    """The records (X, y) of the file that is declared public, encoded as the private ones are."""
    if data.public is None:
        return None
    from tacenda.config.private_run import load

    found, _ = load(data.model_copy(update={"file": data.public, "public": None}))
    return found.X, found.y


def planned(
    facts: Facts,
    topology: Topology,
    privacy: Privacy,
    coalition: int | str,
    rounds: int | None,
    public: tuple[Any, Any] | None = None,
) -> Choice:
    """The planner's choice for these public facts; `rounds` fixes their number, and on a public
    sample the step is tuned."""
    from tacenda.planning import plan_facts

    if privacy.noise or privacy.mode != "sound":
        raise InputError(
            "algorithm 'auto' plans sound noise for a stated epsilon; with other noise, "
            "name the algorithm."
        )
    epsilon: Any = privacy.epsilon
    found = plan_facts(
        facts, topology, epsilon, privacy.delta, coalition=pooled(coalition), rounds=rounds
    )
    found = found if public is None else found.tuned(public)
    return _of("auto", found)


def pooled(coalition: int | str) -> int | None:
    """The planner's word for a coalition: None where everybody else may combine what they know."""
    return None if isinstance(coalition, str) else coalition


def _file_name(label: str) -> str:
    """Labels name files, so they hold letters, digits, dots, hyphens and underscores only."""
    clean = "".join(c if c.isalnum() or c in "._-" else "-" for c in label.strip()).strip("-.")
    if not clean:
        raise InputError(
            f"a label must hold letters or digits, not {label!r}; for instance 'ipadmm-short'."
        )
    return clean
