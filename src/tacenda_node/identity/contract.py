"""The contract: one TOML file with everything public that a run needs, the same at every member,
and signed by each.

Nothing private is in it. Nodes compare its hash when they meet and refuse to run on a difference,
naming the field.

`hash()` covers every field. `run_id()` covers what defines the run and leaves out addresses,
certificates and keys, so that a member may move or renew its certificate in the middle of a run:
the members sign the new text, and every node goes on with its state.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tacenda.errors import InputError
from tacenda.formats.text import canonical_json
from tacenda.privacy.settings import Privacy
from tacenda.terms.border import MethodSettings, stated, with_settings
from tacenda.terms.data import StatedData
from tacenda.terms.method import SETTINGS
from tacenda.terms.network import StatedNetwork
from tacenda.terms.privacy import Promise, StatedPrivacy
from tacenda.terms.problem import StatedProblem
from tacenda.terms.run import StatedRun
from tacenda_node.identity.addresses import check_address
from tacenda_node.identity.certificates import check_name

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
IDENTITY_FIELDS = ("address", "fingerprint", "signing_key", "listens")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Member(_Part):
    """One organisation. size: its public number of records (replace-one),
    or its public divisor (add-remove)."""

    name: str
    size: Annotated[int, Field(ge=1)]
    address: str
    fingerprint: Hex
    signing_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")]
    listens: bool = True

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        return check_name(name)

    @field_validator("address")
    @classmethod
    def _address(cls, address: str) -> str:
        return check_address("address", address)


if TYPE_CHECKING:  # what `with_settings` gives them

    class _PrivacySettings(_Part, StatedPrivacy):  # type: ignore[misc]
        epsilon: float

    class _ProblemSettings(_Part, StatedProblem):  # type: ignore[misc]
        classes: list[str] | None
        data_norm: float
        row_scale: float

    class _RunSettings(_Part, MethodSettings):
        solver_tolerance: float

else:
    _PrivacySettings = _ProblemSettings = _Part

    class _RunSettings(_Part, MethodSettings): ...


@with_settings(StatedData, "contract")
@with_settings(StatedProblem, "contract")
class ProblemTerms(_ProblemSettings):  # type: ignore[misc]
    """What is minimised (`terms.problem`), with what schema and plugins say. loss_code,
    regulariser_code: of a plugin, the hash of its source, which must be the same at every member.
    """

    n_features: Annotated[int, Field(ge=1, le=10_000_000)]
    loss_code: Hex | None = None
    regulariser_code: Hex | None = None


@with_settings(StatedPrivacy, "contract")
class PrivacyTerms(_PrivacySettings):  # type: ignore[misc]
    """The promise of the whole run (`terms.privacy`).

    coalition: not given, an algorithm whose neighbours share noise is refused; 0 is an eavesdropper
    only.
    """

    @property
    def promise(self) -> Privacy:
        """As a run takes it."""
        return Privacy(**stated(Promise, self))

    @property
    def person(self) -> tuple[int, int]:
        """(records of a person at one member, members at which a person may be)."""
        return self.records_per_person or 1, self.members_per_person or 1


class AbsenceTerms(_Part):
    """What happens when a member stays away for longer than limit_seconds.

    losses: how many times a round may be made again because a member was lost in it. All of them
    are paid for beforehand, with a little more noise in every release. None: one under `continue`,
    none under `stop`.
    """

    policy: Literal["stop", "continue"] = "stop"
    limit_seconds: Positive = 3600.0
    losses: Annotated[int, Field(ge=0, le=1000)] | None = None

    @property
    def reserved_losses(self) -> int:
        """How many losses are paid for."""
        return int(self.policy == "continue") if self.losses is None else self.losses


class AlgorithmTerms(BaseModel):
    """`name` and the algorithm's hyperparameters; a schedule is a table with `schedule` and its
    fields.

    code: of a plugin, the hash of its source, which must be the same at every member.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)
    name: str
    code: Hex | None = None


class PrepareTerms(_Part):
    """What happens to the records before the algorithm's first step (`tacenda.Whitening`)."""

    name: Literal["whitening"]
    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    norm: Positive = 1.0
    clip: Positive | None = None
    floor: Positive | None = None
    scale: Positive | None = None
    rank: Annotated[int, Field(ge=1)] | None = None
    kind: Literal["full", "diagonal"] | None = None
    label_scale: Annotated[float, Field(ge=0)] | None = None


class EvaluationTerms(_Part):
    """How the finished model is evaluated, on records that were never trained on.

    held_out: the share of every member's records that is kept for it; which ones, the member draws
    in secret and once. epsilon, delta: what the held-out records may lose; those of the run where
    they are not given. confidence: of the intervals. edges: of the bins of predicted probabilities,
    for calibration and ROC; log_loss_bound: to which one record's log loss is cut. low, high: the
    label's bounds where it is a number; residual_bound: to which a residual is cut.
    """

    held_out: Annotated[float, Field(gt=0, lt=1)]
    epsilon: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    edges: Annotated[list[float], Field(min_length=1, max_length=1000)] | None = None
    log_loss_bound: Positive | None = None
    low: Annotated[float, Field(allow_inf_nan=False)] | None = None
    high: Annotated[float, Field(allow_inf_nan=False)] | None = None
    residual_bound: Positive | None = None


class DescribeTerms(_Part):
    """A table of who is in it (`tacenda describe`): share of the budget beside a training, or
    beside the other table; groups, columns and quantiles."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    by: str | None = None
    columns: list[str] | None = None
    quantiles: list[Annotated[float, Field(gt=0, lt=1)]] = [0.25, 0.5, 0.75]
    bins: Annotated[int, Field(ge=2, le=1000)] = 20


class SurvivalTerms(_Part):
    """Survival curves (`tacenda survival`) at the schema's time points: share as for a table."""

    share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    by: str | None = None
    times: Literal["between points", "on points"] = "between points"


class HazardTerms(_Part):
    """Cox's model in groups (`tacenda hazards`), which is a contract's only question."""

    columns: list[str] | None = None


class ContinuesTerms(_Part):
    """Which run this one continues. It starts at that run's model, whitens with the moment that was
    released there, and releases none.

    run: its `run_id`. start: SHA-256 of what is taken over (`peer.public_start`). drift: how much
    the best model may have changed since, as a share of all that there was to learn. records: of
    members whose ids have budgets of their own, all ids, those that no run has read ("new"), or
    the others ("old"). window: those that first took part in one of so many latest trainings, this
    one included.
    """

    run: Hex
    start: Hex
    drift: Annotated[float, Field(ge=0, le=1)] = 0.01
    records: Literal["all", "new", "old"] = "all"
    window: Annotated[int, Field(ge=1, le=10_000)] | None = None


class EvaluatedRun(_Part):
    """Of the closing run, whose contract the members derive and nobody writes: which run's model it
    evaluates. run: its `run_id`; model: SHA-256 of the model, the same at every member."""

    run: Hex
    model: Hex


class VaryingTerms(_Part):
    """Mixing over edges that vary from round to round (`tacenda.graph.RandomEdges`)."""

    edges: Literal["random"]
    active: Annotated[float, Field(gt=0, le=1)] = 0.5
    seed: Annotated[int, Field(ge=0)] = 0
    weights: Literal["metropolis", "max-degree"] = "metropolis"


@with_settings(StatedNetwork, "contract")
@with_settings(StatedRun, "contract")
class Contract(_RunSettings):
    """The whole file. Of the settings of the method, those that are not written here have their
    own defaults. rehearsal_seed: seeded noise for a rehearsal; a node refuses such a contract
    for a real run.

    amendment, follows: of an amended text, its number and the hash of the text before it. left: the
    members who have left the run for good; the others sign. describe, survival: tables that open
    the run, or are all of it; hazards: Cox's model; tables: the question that follows from the
    tables beside a training and the schema. evaluation: a closing evaluation on
    held-out records. evaluates: never in a file (`node.evaluation_run`).
    """

    version: Literal[1] = 1
    title: Annotated[str, Field(min_length=1, max_length=200)]
    rounds: Annotated[int, Field(ge=1, le=1_000_000)]
    mixing: Literal["metropolis", "uniform", "max-degree"] | VaryingTerms = "metropolis"
    schema_hash: Hex
    rehearsal_seed: Annotated[int, Field(ge=0)] | None = None
    edges: Annotated[
        list[Annotated[list[str], Field(min_length=2, max_length=2)]], Field(min_length=1)
    ]
    authorities: Annotated[list[str], Field(min_length=1)]
    problem: ProblemTerms
    algorithm: AlgorithmTerms
    prepare: PrepareTerms | None = None
    privacy: PrivacyTerms
    absence: AbsenceTerms = AbsenceTerms()
    describe: DescribeTerms | None = None
    survival: SurvivalTerms | None = None
    hazards: HazardTerms | None = None
    tables: dict[str, Any] | None = None
    evaluation: EvaluationTerms | None = None
    continues: ContinuesTerms | None = None
    evaluates: EvaluatedRun | None = None
    amendment: Annotated[int, Field(ge=1, le=1000)] | None = None
    follows: Hex | None = None
    left: Annotated[list[str], Field(min_length=1)] | None = None
    members: Annotated[list[Member], Field(min_length=2)]

    @model_validator(mode="after")
    def _whole(self) -> Contract:
        names = self.names
        for field, what in (
            ("name", "names"),
            ("fingerprint", "fingerprints"),
            ("signing_key", "signing keys"),
        ):
            found: dict[str | bytes, str] = {}
            for member in self.members:
                value = getattr(member, field)
                # One key can be written in several ways
                value = base64.b64decode(value) if field == "signing_key" else value.lower()
                if value in found:
                    raise ValueError(
                        f"members must have distinct {what}, "
                        f"but {found[value]} and {member.name} have the same"
                    )
                found[value] = member.name
        for a, b in self.edges:
            for end in (a, b):
                if end not in names:
                    raise ValueError(
                        f"edges join members, and {end!r} is not one of {', '.join(names)}"
                    )
            if not (self.member(a).listens or self.member(b).listens):
                raise ValueError(
                    f"edge {a} - {b}: at least one end must accept connections (listens = true)"
                )
        self._check_evaluation()
        self._check_tables()
        if (self.amendment is None) != (self.follows is None):
            raise ValueError("amendment and follows must both be there, or neither")
        strangers = [name for name in self.left or () if name not in names]
        if strangers or (self.left and self.amendment is None):
            raise ValueError("left must name members, and only an amendment may have it")
        for path, value in _leaves(self.model_dump(mode="json", exclude={"authorities"}), ""):
            if not f"{path}{_words(value)}".isprintable():
                raise ValueError(
                    f"{path!r} must have printable characters only, because people read it on "
                    "terminals before they sign"
                )
        for pem in self.authorities:
            if not pem.startswith("-----BEGIN CERTIFICATE-----"):
                raise ValueError("authorities must be certificates in PEM form")
        return self

    def _check_evaluation(self) -> None:
        """Every member trains on a record and holds one out, and all end with the same model."""
        if self.evaluation is None:
            return
        for member in self.members:
            kept = self.held_out_size(member.name)
            if not 0 < kept < member.size:
                raise ValueError(
                    f"evaluation.held_out of {self.evaluation.held_out:g} keeps {kept} of "
                    f"{member.size} records of {member.name}, and at least one must be held out "
                    "and one trained on; leave that member out, or draft without an evaluation "
                    "(--held-out 0)"
                )
        if self.privacy.person[1] > 1:
            raise ValueError(
                "evaluation needs persons who are at one member only, not at "
                f"{self.privacy.person[1]}: each member draws by itself who is held out, so the "
                f"same person could be trained on at one and evaluated on at another"
            )
        method = self.method_of(None)
        if not method.ends_exactly:
            raise ValueError(
                'evaluation needs finish_mixing = "exact", so that all members evaluate the same '
                f"model, not {method.closing_mixings}"
            )

    def _check_tables(self) -> None:
        """Tables have a question, which opens the training or is the run's only one."""
        name, parts = self.algorithm.name, self.table_parts()
        if (self.tables is not None) != (bool(parts) and self.has_training):
            raise ValueError(
                "tables belongs to describe or survival beside a training, whose question it is; "
                "draft the contract from its terms"
            )
        if (self.hazards is not None) != (name == "hazard-newton") or (
            self.hazards is not None and len(parts) > 1
        ):
            raise ValueError(
                "hazards belongs to the algorithm 'hazard-newton' alone; terms name it 'cox'"
            )
        if self.tables is not None and self.tables_share >= 1:
            raise ValueError(
                "describe.share and survival.share must leave the training a share, and add up to "
                f"{self.tables_share:g}; choose smaller ones"
            )
        if parts and not self.has_training and self.evaluation is not None:
            raise ValueError("evaluation needs a training; leave it out (--held-out 0)")
        if self.continues is not None and not self.has_training:
            raise ValueError("continues needs a training; leave it out")

    def table_parts(self) -> dict[str, Any]:
        """The tables' terms by name, as plain values."""
        parts = {"describe": self.describe, "survival": self.survival, "hazards": self.hazards}
        return {k: v.model_dump(mode="json") for k, v in parts.items() if v is not None}

    @property
    def has_training(self) -> bool:
        """Whether a loss is minimised, rather than a table or hazard ratios released."""
        return self.algorithm.name not in ("statistic", "hazard-newton")

    @property
    def tables_share(self) -> float:
        """Share of the budget (mu^2) that the tables beside a training take."""
        return sum(part.share for part in (self.describe, self.survival) if part is not None)

    @classmethod
    def build(cls, values: dict[str, Any]) -> Contract:
        """From plain values, with one-sentence errors."""
        found = values.get("version", 1)
        if found != 1:
            raise InputError(
                f"contract field version must be 1, the version that this program reads, not "
                f"{found!r}; install the version of Tacenda with which it was written."
            )
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _sentence(error) from None

    @property
    def preparation(self) -> dict[str, Any] | None:
        """`prepare` as plain values."""
        return None if self.prepare is None else self.prepare.model_dump()

    @property
    def total_rounds(self) -> int:
        """Those of the algorithm, and the closing ones."""
        return self.rounds + self.method_of(None).closing_rounds

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def signatories(self) -> list[str]:
        """Who must sign: all members but those who have left."""
        return [name for name in self.names if name not in (self.left or ())]

    def member(self, name: str) -> Member:
        for member in self.members:
            if member.name == name:
                return member
        raise InputError(
            f"{name!r} is not a member of the contract; its members are {', '.join(self.names)}."
        )

    def held_out_size(self, name: str) -> int:
        """How many of a member's records are held out of training: from public numbers alone."""
        if self.evaluation is None:
            return 0
        return round(self.evaluation.held_out * self.member(name).size)

    def trained_size(self, name: str) -> int:
        """How many of a member's records are trained on."""
        return self.member(name).size - self.held_out_size(name)

    def position(self, name: str) -> int:
        return self.names.index(self.member(name).name)

    def neighbours(self, name: str) -> list[str]:
        """In the order of the contract's members."""
        joined = {b if a == name else a for a, b in self.edges if name in (a, b)}
        return [member for member in self.names if member in joined]

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON values, without what is not set, a linear model and later settings' defaults.

        Contracts from before there was a choice of these say nothing of it; their hash stays.
        """
        values: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        for s in SETTINGS:
            if s.later and values[s.name] == s.default:
                del values[s.name]
        if values["problem"]["model"] == "linear":
            del values["problem"]["model"]
        return values

    def canonical(self) -> bytes:
        """The text that is hashed and signed: JSON with sorted keys and no spaces."""
        return canonical_json(self.to_plain()).encode()

    def hash(self) -> str:
        """SHA-256 over every field."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def run_id(self) -> str:
        """SHA-256 over what defines the run: not addresses, certificates, keys, nor who has left
        it."""
        values = self.to_plain()
        for name in ("authorities", "amendment", "follows", "left"):
            values.pop(name, None)
        values["members"] = [
            {k: v for k, v in m.items() if k not in IDENTITY_FIELDS} for m in values["members"]
        ]
        return hashlib.sha256(canonical_json(values).encode()).hexdigest()

    def field_hashes(self) -> dict[str, str]:
        """A short hash of every field by its path,
        so that two nodes can name the field in which they differ."""
        leaves = _leaves(self.to_plain(), "")
        return {
            path: hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]
            for path, value in leaves
        }


def table_terms(parts: dict[str, Any]) -> dict[str, Any]:
    """Terms of tables by name, checked, as plain values."""
    kinds: dict[str, type[_Part]] = {
        "describe": DescribeTerms,
        "survival": SurvivalTerms,
        "hazards": HazardTerms,
    }
    found = {}
    for name, values in parts.items():
        try:
            found[name] = kinds[name].model_validate(values).model_dump(mode="json")
        except ValidationError as error:
            raise _sentence(error, name) from None
    return found


def _sentence(error: ValidationError, part: str = "") -> InputError:
    first = error.errors()[0]
    place = ".".join(str(step) for step in (part, *first["loc"]) if step != "") or "contract"
    rule = first["msg"].removeprefix("Value error, ")
    return InputError(f"contract field {place}: {rule}; correct it in the contract file.")


def _words(value: Any) -> str:
    """A value as people see it: all its words, one after the other."""
    if isinstance(value, dict):
        return "".join(f"{key}{_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return "".join(map(_words, value))
    return str(value)


def differing_fields(mine: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """The paths at which two contracts' `field_hashes` differ."""
    return sorted(
        path for path in mine.keys() | theirs.keys() if mine.get(path) != theirs.get(path)
    )


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            leaf
            for key, v in value.items()
            for leaf in _leaves(v, f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
        named = [(v.get("name", str(k)), v) for k, v in enumerate(value)]
        return [leaf for key, v in named for leaf in _leaves(v, f"{path}.{key}")]
    return [(path, value)]
