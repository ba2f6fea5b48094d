"""`fit` and `compare`: from a configuration to a run folder with models, metrics and ledger."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacenda.errors import EngineError, InputError, WeakPrivacyWarning
from tacenda.formats.text import toml
from tacenda.graph.topology import Topology
from tacenda.planning.advice import RARE, class_sentence, noise_advice
from tacenda.runs import read, references, simulations, table
from tacenda.runs.choice import Choice, resolved
from tacenda.runs.cost import check_declared
from tacenda.runs.form import with_form
from tacenda.runs.objects import privacy_of
from tacenda.runs.private_run import PrivateRun, private_run
from tacenda.runs.sections import ComparedSection, RunConfig
from tacenda.runs.timing import PLANNING, READING, REFERENCES, WRITING, Timing
from tacenda.runs.written import about_of, entry_of, rows_of, small_nodes, versions
from tacenda.runtime.metrics import check_metrics
from tacenda.runtime.ranks import ALONE, Ranks
from tacenda.runtime.result import RunResult
from tacenda.runtime.run_folder import RunFolder, default_path
from tacenda.runtime.spec import check_privacy

if TYPE_CHECKING:
    from tacenda.evaluation.coefficients import CoefficientTable
    from tacenda.evaluation.shapes import Shape

COMPARED = ("auto", "ipadmm", "cdpadmm", "dpdda")

Source = str | Path | Mapping[str, Any] | RunConfig


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished run folder.

    Attributes
    ----------
    folder : RunFolder
        The folder on disk.
    results : dict
        Each run by its name, label and seed, in the order of the table.
    table : list of dict
        The rows that are shown first, with the results without noise and of no learning beside
        them.
    config : RunConfig
        The resolved configuration.
    dataset : dict
        Public facts of the data.
    graph : str
        The network in words.
    notes : tuple of str
        What a reader of the table must know.
    reasons : dict
        Why the planner chose an algorithm's settings, by label.
    timing : dict
        Seconds by the clock of each part of the work, and their total.

    Examples
    --------
    >>> import tacenda as tc
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> fitted = tc.fit(
    ...     {
    ...         "data": {"name": "breast_cancer"},
    ...         "privacy": {"epsilon": 8.0},
    ...         "run": {"folder": folder + "/run"},
    ...     },
    ...     progress=False,
    ... )
    >>> fitted.path.name
    'run'
    """

    folder: RunFolder
    results: dict[str, RunResult]
    table: list[dict[str, Any]]
    config: RunConfig
    dataset: dict[str, Any]
    graph: str
    notes: tuple[str, ...]
    reasons: dict[str, list[str]]
    timing: dict[str, float]

    @property
    def path(self) -> Path:
        """Where the run folder is."""
        return self.folder.path

    @property
    def result(self) -> RunResult:
        """Result of the first run: the only one of a fit with one seed."""
        return next(iter(self.results.values()))

    def coefficients(self, run: str | None = None) -> CoefficientTable:
        """Give the coefficients of a run's average model.

        They are sorted by the size of their effect, in the original units, with the standard error
        that the privacy noise adds, or with the intervals that the run tells or that were asked
        for (`ask_intervals`); they cost no privacy.

        run: which run, as in `results`; by default the first. Result: the rows by feature name, the
        intercept last.
        """
        from tacenda.data.schema import Schema
        from tacenda.evaluation.of_runs import kept_intervals, run_coefficients

        name = next(iter(self.results)) if run is None else run
        result = self.results[name]
        path = self.folder.schema_path
        schema = Schema.read(path) if path.is_file() else None
        names = self.dataset["feature_names"] or [
            f"x{k}" for k in range(result.settings["problem"]["n_features"])
        ]
        kept = kept_intervals(self.folder, name)
        return run_coefficients(result, names, schema, self.dataset["classes"], kept)

    def shapes(self, run: str | None = None) -> list[Shape]:
        """Give the shapes of an additive run, those that matter most first; none of a linear one.

        run: which run, as in `results`; by default the first.
        """
        from tacenda.data.schema import Schema
        from tacenda.evaluation.shapes import run_shapes

        path = self.folder.schema_path
        schema = Schema.read(path) if path.is_file() else None
        if schema is None or not schema.additive:
            return []
        return run_shapes(self.results[next(iter(self.results)) if run is None else run], schema)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report.

        path: where to write; by default report.html in the folder. Result: the file that was
        written.
        """
        from tacenda.report import build

        return build(self.path, path)

    def __repr__(self) -> str:
        return f"Fitted({str(self.path)!r}, {', '.join(self.results)})"


def fit(config: Source, *, resume: bool = False, progress: str | bool = "auto") -> Fitted:
    """Learn one private model over a network and keep it in a run folder, as `tacenda fit` does.

    The guarantee is that of `Privacy`, for the data named in the configuration. The result is a
    simulation on one machine, for research; its table reads private data without noise.

    Parameters
    ----------
    config : RunConfig, dict, str or Path
        A TOML file, a run folder, a dict of the same sections, or a `RunConfig`; its
        [[compare]] is for `compare`. The run is written to run.folder, or to
        runs/<name>-<time>.
    resume : bool, default=False
        Continue the interrupted run of that folder.
    progress : {"auto", True, False}, default="auto"
        Whether to show a progress bar; "auto" shows one on a terminal.

    Raises
    ------
    InputError
        If the configuration is wrong; the message names the field.

    Examples
    --------
    >>> import tempfile
    >>> import tacenda as tc
    >>> folder = tempfile.mkdtemp()
    >>> fitted = tc.fit(
    ...     {
    ...         "data": {"name": "breast_cancer"},
    ...         "privacy": {"epsilon": 8.0},
    ...         "run": {"folder": folder + "/run"},
    ...     },
    ...     progress=False,
    ... )
    >>> fitted.result.privacy.epsilon <= 8.0
    True
    """
    alone = _read(config).model_copy(update={"compare": []})
    return _of_root(run(alone, "fit", resume=resume, progress=progress))


def compare(
    config: Source,
    algorithms: Sequence[str] | None = None,
    *,
    resume: bool = False,
    progress: str | bool = "auto",
) -> Fitted:
    """Run several algorithms at the same (epsilon, delta), as `tacenda compare` does.

    Parameters
    ----------
    config : RunConfig, dict, str or Path
        As in `fit`.
    algorithms : sequence of str or None, default=None
        Their names; by default the configuration's [[compare]], or auto, ipadmm, cdpadmm and
        dpdda.
    resume : bool, default=False
        Continue the interrupted run of that folder.
    progress : {"auto", True, False}, default="auto"
        Whether to show a progress bar; "auto" shows one on a terminal.

    Returns
    -------
    Fitted
        The finished run folder, with one row of the table for each algorithm.

    Raises
    ------
    InputError
        If the configuration is wrong; the message names the field.

    Examples
    --------
    >>> import tempfile
    >>> import tacenda as tc
    >>> folder = tempfile.mkdtemp()
    >>> compared = tc.compare(
    ...     {
    ...         "data": {"name": "breast_cancer"},
    ...         "network": {"graph": "ring", "nodes": 5},
    ...         "privacy": {"epsilon": 8.0},
    ...         "run": {"folder": folder + "/run", "rounds": 10},
    ...     },
    ...     ["cdpadmm", "dpdda"],
    ...     progress=False,
    ... )
    >>> len(compared.results)
    2
    """
    several = compared(_read(config), algorithms)
    return _of_root(run(several, "compare", resume=resume, progress=progress))


def _of_root(fitted: Fitted | None) -> Fitted:
    assert fitted is not None
    return fitted


def compared(config: RunConfig, algorithms: Sequence[str] | None) -> RunConfig:
    """The configuration with the algorithms to compare: as named, as in it, or the usual four."""
    if algorithms is None and config.compare:
        return config
    own = config.algorithm
    sections = [
        ComparedSection(
            name=name, **(own.hyperparameters if name == own.name and name != "auto" else {})
        )
        for name in algorithms or COMPARED
    ]
    return config.model_copy(update={"compare": sections})


def run(
    config: RunConfig, command: str, *, resume: bool, progress: str | bool, ranks: Ranks = ALONE
) -> Fitted | None:
    """Simulate everything that the configuration asks for, and write the folder. Over several ranks
    each makes its part of every run; rank 0 alone writes, and the others return None."""
    if not ranks.root:
        warnings.simplefilter("ignore")
    if resume and config.run.folder is None:
        raise InputError("--resume needs --folder with the run folder to continue with.")
    config, taken = with_form(config)
    if not resume:  # a resumed run has the settings that were tuned already
        check_declared(config)
        if config.run.folder is not None:
            RunFolder(config.run.folder).check_free()
    config = _with_whole_paths(config)
    timing = Timing()
    with timing.part(READING):
        private = private_run(config, ranks)
    with timing.part(PLANNING):
        planned = simulations.chosen(config, private)
    config = resolved(config, planned)
    # as a resumed run will name them
    again = simulations.chosen(config, private)
    chosen = [
        replace(b, method=replace(b.method, reasons=a.method.reasons))
        for a, b in zip(planned, again, strict=True)
    ]
    path = ranks.by_root(lambda: _path(config, command, planned), "naming the run folder")
    config = config.model_copy(update={"run": config.run.model_copy(update={"folder": str(path)})})
    _check_first(config, private, chosen)
    folder = RunFolder(path)
    ranks.by_root(lambda: _begun(folder, config, private, resume), "making the run folder")
    try:
        done = simulations.simulate_all(
            config, private, chosen, folder, timing, progress=progress, ranks=ranks
        )
    except KeyboardInterrupt as stop:
        kept = "a checkpoint is kept" if folder.has_progress() else "no round was finished yet"
        raise KeyboardInterrupt(
            f"{str(stop) or 'interrupted'}; {kept}. {_resume_with(command, folder)}"
        ) from None
    except EngineError as lost:
        if folder.has_progress():
            raise EngineError(f"{lost} {_resume_with(command, folder)}") from None
        if not resume:
            folder.discard_if_empty()
        raise
    except Exception:
        if not resume and ranks.root:
            folder.discard_if_empty()
        raise
    with timing.part(REFERENCES):
        rows = rows_of(config, private, done)
        affordable = references.affordable(private.shards, config)
        dataset = about_of(private, config)
        small = small_nodes(private, config.privacy.adjacency)
        rare = _rare_classes(config, private)
    if not ranks.root:
        return None
    reasons = {
        choice.label: list(choice.method.reasons) for choice in chosen if choice.method.reasons
    }
    manifest = {
        "command": f"tacenda {command}",
        "versions": versions(),
        "dataset": dataset,
        "table": rows,
        "reasons": reasons,
        "timing": timing.to_plain(),
    }
    results = {one.run: one.result for one in done}
    with timing.part(WRITING):
        folder.finish(results, {**manifest, "results": [entry_of(folder, one) for one in done]})
    compared_with = [references.NOTE] if any(r["label"] == references.SERVER for r in rows) else []
    wanted = config.run.references and references.stated(config) is not None
    if wanted and not affordable:
        compared_with = [references.LEFT_OUT]
    missing = [f"{row['label']}: {row['missing']}" for row in rows if row.get("missing")]
    notes = (table.NOTE, *taken, *compared_with, *missing, *rare, *small, *private.dataset.notes)
    graph = private.graph.name
    return Fitted(folder, results, rows, config, dataset, graph, notes, reasons, timing.to_plain())


def _resume_with(command: str, folder: RunFolder) -> str:
    name = "fit" if command == "fit" else "compare"
    return f"Continue with: tacenda {name} --resume --folder {folder.path}"


def _begun(folder: RunFolder, config: RunConfig, private: PrivateRun, resume: bool) -> None:
    """The folder on disk, with its configuration and the schema."""
    RunFolder.create(folder.path, toml(config.to_plain()), resume=resume)
    if private.schema is not None:
        private.schema.write(folder.schema_path)


def _read(config: Source) -> RunConfig:
    if isinstance(config, RunConfig):
        return config
    if isinstance(config, Mapping):
        return read.build(config)
    return read.build(read.read_file(config), str(config))


def _with_whole_paths(config: RunConfig) -> RunConfig:
    """Files by their whole paths, so that the folder's configuration resumes from anywhere."""
    data, ledger = config.data, config.run.ledger
    found = {
        k: str(Path(v).resolve())
        for k in ("file", "table_schema", "public")
        if (v := getattr(data, k)) is not None
    }
    whole = None if ledger is None else str(Path(ledger).resolve())
    run = config.run.model_copy(update={"ledger": whole})
    return config.model_copy(update={"data": data.model_copy(update=found), "run": run})


def _path(config: RunConfig, command: str, chosen: list[Choice]) -> Path:
    if config.run.folder is not None:
        return Path(config.run.folder)
    return default_path(f"{command}-{chosen[0].label}" if len(chosen) == 1 else command)


def _check_first(config: RunConfig, private: PrivateRun, chosen: list[Choice]) -> None:
    """Refuse what cannot work for any algorithm before the first one runs or writes."""
    facts = private.shards.facts(config.privacy.adjacency, config.run.solver_tolerance)
    topology = Topology.of(private.graph)
    for choice in chosen:
        budget = check_privacy(privacy_of(config.privacy), choice.method.algorithm)
        choice.method.algorithm.check(facts, topology, choice.method.rounds, budget is not None)
    budget = privacy_of(config.privacy)
    for sentence in [] if budget is None else noise_advice(facts, budget):
        warnings.warn(sentence, WeakPrivacyWarning, stacklevel=2)
    check_metrics(simulations.metrics_of(config, private), private.problem, None, private.test)


def _rare_classes(config: RunConfig, private: PrivateRun) -> list[str]:
    """How many records a class needs, where that may be more than it has."""
    budget = privacy_of(config.privacy)
    if budget is None:
        return []
    facts = private.shards.facts(config.privacy.adjacency, config.run.solver_tolerance)
    return [sentence.removesuffix(".") for sentence in class_sentence(facts, budget, RARE)]
