"""The sections of a run's configuration, as strict pydantic models:
an unknown key is an error, never ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tacenda.engines import Engine
from tacenda.errors import InputError
from tacenda.formats.files import is_same_file
from tacenda.terms.border import MethodSettings, with_settings
from tacenda.terms.setting import AUTO, Auto

OPTIMA = {"auto", "optimum"}  # algorithms that end at the optimum of a run without privacy


class Section(BaseModel):
    """Frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DataSection(Section):
    """[data]: a named set (`name`), a file with its `schema`, or a bare public shape (`records`,
    `features`).

    A LIBSVM file (.svm, .libsvm, also .gz or .bz2) needs no schema, but its public `features` and
    `labels` (as in the file). test_fraction: the share of a file's records that is set aside for
    testing, drawn with `split_seed`. intercept: a constant feature inside the norm bound; named
    sets and LIBSVM files have one unless it is false, and a schema says so itself. options: further
    arguments of a named set's loader. records: the declared number of records, where it is not
    counted. public: another file of the same schema whose records are public, on which algorithm
    "auto" tunes its step; they get no protection, and nothing is charged for them. person: the
    column with the persons' ids, where a person is the unit; by default the schema's. positive:
    which of two classes is the positive one; by default the second.
    """

    name: str | None = None
    file: str | None = None
    table_schema: str | None = Field(default=None, alias="schema")
    public: str | None = None
    person: str | None = None
    encoding: Literal["public", "papers"] | None = None
    split: Literal["all", "official"] | None = None
    intercept: bool | None = None
    sparse: bool = False
    dtype: Literal["float64", "float32"] = "float64"
    test_fraction: float = Field(default=0.0, ge=0, lt=1)
    split_seed: int = Field(default=0, ge=0)
    options: dict[str, Any] = Field(default_factory=dict)
    records: int | None = Field(default=None, ge=1)
    features: int | None = Field(default=None, ge=1)
    classes: int | None = Field(default=None, ge=0)
    labels: list[str] | None = None
    positive: str | None = None

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


class ProblemSection(Section):
    """[problem]: what is minimised. loss "auto": logistic, multinomial or huber, by the label's
    declared kind.

    data_norm: the public bound on every row; by default the one that the data set or its schema
    declares. row_scale: by how much the rows were divided; by default what the data set or its
    schema says. strength is for the rows before that. radius: the public bound on every coordinate
    of a model; by default a thousand million.
    """

    loss: str = "auto"
    loss_options: dict[str, float] = Field(default_factory=dict)
    regulariser: str = "l2"
    regulariser_options: dict[str, float] = Field(default_factory=dict)
    strength: float | Auto = "auto"
    loss_scale: float = 1.0
    data_norm: float | None = None
    row_scale: float | None = None
    clip_norm: float | None = None
    radius: float | None = None
    on_large_rows: Literal["error", "scale"] = "error"
    public_size: float | None = None


class NetworkSection(Section):
    """[network]: the graph, as `kind` with its numbers or as one text
    ("random-regular:100,6,seed=3"), and who holds what.

    partition: even, column (the schema's node column), person (all records of a person to one
    node), sizes, label-skew or feature-shift. sizes: "power", "lognormal" or a list.
    """

    graph: str = "random-regular"
    nodes: int | None = Field(default=None, ge=1)
    degree: int | None = Field(default=None, ge=1)
    probability: float | None = None
    rows: int | None = None
    columns: int | None = None
    dimension: int | None = None
    seed: int = Field(default=0, ge=0)
    partition: Literal[
        "auto", "even", "column", "person", "sizes", "label-skew", "feature-shift"
    ] = "auto"
    partition_seed: int = Field(default=0, ge=0)
    sizes: Literal["power", "lognormal"] | list[int] | None = None
    spread: float = 1.0
    concentration: float = 0.5
    shift: float = 1.0
    feature: int | None = None


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
    scale: float | None = None
    rank: int | None = None
    kind: Literal["full", "diagonal"] | None = None

    @property
    def preparation(self) -> dict[str, Any] | None:
        """Plain values for `algorithms.prepared`; None for nothing."""
        return None if self.name == "none" else self.model_dump()


@with_settings(open_as="unset")
class ComparedSection(AlgorithmSection, MethodSettings):
    """[[compare]]: one algorithm of a comparison, with a label and settings of its own."""

    label: str | None = None


class PrivacySection(Section):
    """[privacy]: the promise. private = false runs without noise; noise_multiplier or round_epsilon
    give the noise instead.

    paper: a paper's own input in mode "as-published": c0 (Huang and Gong 2020), a (Zhang et al.
    2018), alpha (Zhang and Zhu 2016), or phi or phi_1 (Gauthier et al. 2020); a and alpha may be a
    schedule, or a list with one for each node. coalition: how many curious members may combine what
    they know, where neighbours share noise; "all" for noise that needs no such trust.
    records_per_person: the promise is for a person (data.person) of whom so many records are kept
    at each node. members_per_person: at how many nodes the same person may be.
    """

    private: bool = True
    epsilon: float | list[float] = 1.0
    delta: float = 1e-5
    adjacency: Literal["replace-one", "add-remove"] = "replace-one"
    mode: Literal["sound", "as-published"] = "sound"
    spread: str | list[float] | dict[str, Any] = "uniform"
    node_noise: Literal["own", "worst"] = "own"
    noise_multiplier: float | None = None
    round_epsilon: float | None = None
    coalition: Annotated[int, Field(ge=0)] | Literal["all"] = 1
    records_per_person: int | None = Field(default=None, ge=1)
    members_per_person: int = Field(default=1, ge=1)
    paper: dict[Literal["c0", "a", "alpha", "phi", "phi_1"], float | list[Any] | dict[str, Any]] = (
        Field(default_factory=dict)
    )


@with_settings(open_as=AUTO)
class RunSection(Section, MethodSettings):
    """[run]: the settings of the method (how long, and how it ends), with which seeds, what is
    measured, and where it is written.

    ledger: a lasting ledger's file to which the run is charged. ledger_dataset: the records' name
    there; given once it is remembered with them, and later runs on the same records are booked
    there without it. fresh_noise: the noise comes from a seed that nobody knows, and cannot be
    repeated; so by default for a file of your own, unless seeds are given. (The seeds then only
    number the runs.) mixing: the weights, or a table of edges that vary from round to round, as
    { edges = "random", active = 0.5, seed = 0 }. references: the rows with which a table compares
    (optimum without noise, trusted server, one node alone, floor); they read all records again.
    "auto" leaves the two private fits among them out where the data is large.
    """

    seeds: list[int] = Field(default_factory=lambda: [0], min_length=1)
    fresh_noise: bool | None = None
    folder: str | None = None
    record_every: int | Auto = "auto"
    metrics: list[str] | Auto = "auto"
    blocks: int = Field(default=1, ge=1)
    solver_tolerance: float = 1e-8
    jobs: int | Auto = "auto"
    engine: str = "loky"
    references: bool | Auto = "auto"
    ledger: str | None = None
    ledger_dataset: str | None = None

    @field_validator("engine")
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
