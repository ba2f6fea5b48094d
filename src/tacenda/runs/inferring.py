"""Ask the records of a run folder once more: for intervals of its coefficients, or whether its
nodes are alike. Each is charged, and kept or shown with what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacenda import checks
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.evaluation.declared_design import design_of, no_units_note
from tacenda.inference.alike import Heterogeneity, heterogeneity
from tacenda.inference.asking import facts_of_run, intervals, statistic_of
from tacenda.inference.design import Design, Forecast, forecast
from tacenda.inference.result import Inference
from tacenda.privacy.settings import Privacy
from tacenda.problem.problem import Problem
from tacenda.runs import read
from tacenda.runs.private_run import private_run
from tacenda.runs.sections import RunConfig
from tacenda.runtime.result import RunResult, load
from tacenda.runtime.run_folder import RunFolder, run_name
from tacenda.terms.border import stated
from tacenda.terms.privacy import Promise


@dataclass(frozen=True, eq=False)
class Question:
    """A question to the records of one run of a folder, before it is asked."""

    folder: RunFolder
    run: str
    result: RunResult
    privacy: Privacy

    @property
    def cost(self) -> str:
        """What it will cost, in words, before anything is read."""
        epsilon = float(self.privacy.epsilon_of(1)[0])
        mine = f"epsilon {epsilon:g}, delta {self.privacy.delta:g}"
        spent = self.result.privacy
        if spent is None:
            return f"This question costs {mine}; the run itself has no privacy."
        whole = f"epsilon {spent.epsilon + epsilon:.3g}"
        return (
            f"This question costs {mine}, on top of the run's epsilon {spent.epsilon:.3g}, delta "
            f"{spent.delta:.3g}: together at most {whole}, delta "
            f"{spent.delta + self.privacy.delta:.3g}, for a record that both have read."
        )

    def forecast(self, covariance: str = "robust") -> Forecast | None:
        """Return which coefficients the question will probably show, before any record is read;
        None where the run's settings do not tell."""
        facts = facts_of_run(self.result, self.privacy.adjacency)
        if facts is None:
            return None
        asked = statistic_of(facts, covariance)
        return forecast(asked, facts, self.privacy, self.result, self._design)

    def intervals(
        self, level: float = 0.95, covariance: str = "robust", anyway: bool = False
    ) -> Inference:
        """Ask for intervals of the coefficients, and keep them in the folder."""
        schema = self.folder.schema_path
        why = no_units_note(Schema.read(schema)) if schema.is_file() else None
        if why is not None:
            raise InputError(why)
        expected = None if anyway else self.forecast(covariance)
        if expected is not None:  # before the records are read
            expected.require_any()
        found = intervals(
            self.result,
            *self._records(),
            privacy=self.privacy,
            level=level,
            covariance=covariance,
            ledger=self._config.run.ledger,
            dataset=self._config.run.ledger_dataset,
            design=self._design,
            anyway=anyway,
        )
        found.save(self.folder.intervals_path(self.run))
        return found

    def heterogeneity(self) -> Heterogeneity:
        """Ask whether the nodes are alike."""
        return heterogeneity(
            self.result,
            *self._records(),
            privacy=self.privacy,
            ledger=self._config.run.ledger,
            dataset=self._config.run.ledger_dataset,
        )

    @property
    def _design(self) -> Design | None:
        """What the folder's schema declares; without one, the features by their names."""
        about = self.result.settings["problem"]
        if self.folder.schema_path.is_file():
            return design_of(Schema.read(self.folder.schema_path), about["loss"])
        names = self.folder.manifest()["dataset"].get("feature_names")
        return None if names is None else Design.plain(names)

    @property
    def _config(self) -> RunConfig:
        return read.build(read.read_file(self.folder.path), str(self.folder.path))

    def _records(self) -> tuple[Problem, Any]:
        private = private_run(self._config)
        return private.problem, private.graph


def question(
    folder: str | Path, run: str | None, epsilon: float, delta: float | None, *, again: bool = False
) -> Question:
    """A question to the records that a run folder's configuration names; refused where intervals
    were asked for already, unless `again`. delta: None takes the run's, or 1e-5 where that is 0."""
    home = RunFolder.open(folder)
    manifest = home.manifest()
    if "contract" in manifest:
        raise InputError(
            f"{folder} is a member's own folder, which cannot ask the others' records. A contract "
            "for least squares in one round (algorithm 'moments', rounds = 1) shows intervals by "
            "itself."
        )
    files = {run_name(entry): entry["file"] for entry in manifest["results"]}
    name = next(iter(files)) if run is None else checks.one_of("--run", run, files)
    if home.intervals_path(name).is_file() and not again:
        raise InputError(
            f"{home.intervals_path(name)} holds intervals already, which `tacenda coefficients "
            f"{folder}` shows at no cost; to pay for new ones give --again."
        )
    result = load(home.path / files[name])
    section = read.build(read.read_file(home.path), str(home.path)).privacy
    promise = stated(Promise, section)
    privacy = Privacy(
        epsilon,
        (section.delta or 1e-5) if delta is None else delta,
        section.adjacency,
        coalition=promise["coalition"],
    )
    return Question(home, name, result, privacy)
