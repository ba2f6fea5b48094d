"""The sections of a run's configuration, as strict pydantic models:
an unknown key is an error, never ignored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tacenda.engines import Engine
from tacenda.errors import InputError
from tacenda.formats.files import is_same_file
from tacenda.terms.border import MethodSettings, with_settings
from tacenda.terms.data import StatedData
from tacenda.terms.method import Method
from tacenda.terms.network import StatedNetwork
from tacenda.terms.privacy import StatedPrivacy
from tacenda.terms.problem import StatedProblem
from tacenda.terms.run import StatedRun
from tacenda.terms.setting import AUTO

OPTIMA = {"auto", "optimum"}  # algorithms that end at the optimum of a run without privacy


class Section(BaseModel):
    """Frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


if TYPE_CHECKING:  # what `with_settings` gives them

    class _DataSettings(Section, StatedData): ...  # type: ignore[misc]

    class _ProblemSettings(Section, StatedProblem):  # type: ignore[misc]
        loss: str = ""

    class _NetworkSettings(Section, StatedNetwork): ...  # type: ignore[misc]

    class _PrivacySettings(Section, StatedPrivacy): ...  # type: ignore[misc]

    class _RunSettings(Section, MethodSettings, StatedRun):  # type: ignore[misc]
        algorithm: Any = None

else:
    _DataSettings = _ProblemSettings = _NetworkSettings = _PrivacySettings = Section

    class _RunSettings(Section, MethodSettings): ...


@with_settings(StatedData, "file")
class DataSection(_DataSettings):  # type: ignore[misc]
    """[data]: a named set, a file with its schema, or a bare public shape (`terms.data`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="after")
    def _one_source(self) -> DataSection:
        if self.name is not None and self.file is not None:
            raise ValueError(
                f"give either name or file, not both ({self.name!r} and {self.file!r})"
            )
        if self.is_libsvm:
            if self.features is None or self.table_schema is not None:
                raise ValueError(
                    "a LIBSVM file is described by features (their public number) and labels, "
                    "not by a schema; for instance "
                    """--set data.features=300 --set 'data.labels=["-1", "1"]'"""
                )
        elif self.file is not None and self.table_schema is None:
            if not Path(self.file).exists():
                raise ValueError(f"there is no file {self.file}; check its name and folder")
            raise ValueError(
                "a file needs a schema that declares its columns; "
                f"`tacenda schema draft {self.file}` proposes one"
            )
        if self.table_schema is not None and self.file is None:
            raise ValueError("schema belongs to a file; give file too")
        if self.person is not None and self.table_schema is None:
            raise ValueError(
                f"person ({self.person!r}) is a column of a file with a schema; give both too"
            )
        if self.public is not None and self.file is None:
            raise ValueError(
                f"public ({self.public!r}) is read by the schema of a file; give file too"
            )
        if self.public is not None and is_same_file(self.public, str(self.file)):
            raise ValueError(
                f"public must be another file than the private records ({self.file!r}), which it "
                "would leave without protection; leave it out, or set public records aside"
            )
        return self

    @property
    def with_intercept(self) -> bool:
        """Whether a named set or a LIBSVM file gets a constant feature."""
        return self.intercept is not False

    @property
    def is_libsvm(self) -> bool:
        """Whether the file is in LIBSVM's sparse format, by its ending."""
        bare = (self.file or "").lower().removesuffix(".gz").removesuffix(".bz2")
        return bare.endswith((".svm", ".libsvm", ".svmlight"))


@with_settings(StatedProblem, "file")
class ProblemSection(_ProblemSettings):  # type: ignore[misc]
    """[problem]: what is minimised (`terms.problem`)."""


@with_settings(StatedNetwork, "file")
class NetworkSection(_NetworkSettings):  # type: ignore[misc]
    """[network]: the graph, and who holds which records (`terms.network`)."""


class AlgorithmSection(Section):
    """[algorithm]: its name, or "auto" for the planner's choice;
    every other key is one of its hyperparameters."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = "auto"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class PrepareSection(Section):
    """[prepare]: what happens to the records before the algorithm, under the same budget.

    name "whitening": the second moment is released for `share` of the budget, and the algorithm
    runs on records that are whitened with it; the other keys are those of `tacenda.Whitening`.
    """

    name: Literal["none", "whitening"] = "none"
    share: float = 0.1
    norm: float = 1.0
    clip: float | None = None
    floor: float | None = None
    label_scale: float | None = None
    scale: float | None = None
    rank: int | None = None
    kind: Literal["full", "diagonal"] | None = None

    @property
    def preparation(self) -> dict[str, Any] | None:
        """Plain values for `algorithms.prepared`; None for nothing."""
        return None if self.name == "none" else self.model_dump()


@with_settings(Method, "file", open_as="unset")
class ComparedSection(AlgorithmSection, MethodSettings):
    """[[compare]]: one algorithm of a comparison, with a label and settings of its own."""

    label: str | None = None


@with_settings(StatedPrivacy, "file")
class PrivacySection(_PrivacySettings):  # type: ignore[misc]
    """[privacy]: the promise (`terms.privacy`)."""


@with_settings(StatedRun, "file", open_as=AUTO)
class RunSection(_RunSettings):  # type: ignore[misc]
    """[run]: the method's settings, and how the run is carried out (`terms.run`)."""

    @field_validator("engine", check_fields=False)
    @classmethod
    def _engine(cls, engine: str) -> str:
        try:
            return str(Engine.parse(engine))
        except InputError as wrong:
            raise ValueError(str(wrong).rstrip(".")) from None

    @model_validator(mode="after")
    def _distinct(self) -> RunSection:
        if len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise ValueError(
                f"seeds must be different whole numbers of at least 0, not {self.seeds}"
            )
        return self


class RunConfig(Section):
    """A whole run. Every section may be left out; what it would hold is then the default."""

    data: DataSection = Field(default_factory=DataSection)
    problem: ProblemSection = Field(default_factory=ProblemSection)
    network: NetworkSection = Field(default_factory=NetworkSection)
    algorithm: AlgorithmSection = Field(default_factory=AlgorithmSection)
    prepare: PrepareSection = Field(default_factory=PrepareSection)
    compare: list[ComparedSection] = Field(default_factory=list)
    privacy: PrivacySection = Field(default_factory=PrivacySection)
    run: RunSection = Field(default_factory=RunSection)

    @model_validator(mode="after")
    def _noise_of_own_files_is_fresh(self) -> RunConfig:
        if self.run.fresh_noise is None:
            fresh = self.data.file is not None and "seeds" not in self.run.model_fields_set
            object.__setattr__(self, "run", self.run.model_copy(update={"fresh_noise": fresh}))
        return self

    @model_validator(mode="after")
    def _the_optimum_is_of_unclipped_gradients(self) -> RunConfig:
        """Clipping is for noise; without it the optimum of the stated objective is asked for."""
        sections: list[AlgorithmSection] = [*self.compare] or [self.algorithm]
        names = {section.name for section in sections}
        if self.problem.clip_norm is not None and not self.privacy.private and names <= OPTIMA:
            unclipped = self.problem.model_copy(update={"clip_norm": None})
            object.__setattr__(self, "problem", unclipped)
        return self

    def to_plain(self) -> dict[str, Any]:
        """Nested plain values, without what is None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
