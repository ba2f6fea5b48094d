"""What is public about a run's data before any record is looked at:
how many, how wide, how many classes, whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacenda._types import Array, Ints
from tacenda.data.catalogue import PublicShape, named_set
from tacenda.errors import InputError
from tacenda.runs.sections import DataSection, NetworkSection, RunConfig
from tacenda.words import counted

if TYPE_CHECKING:
    from tacenda.data.label import Label
    from tacenda.data.schema import Schema

DEFAULT_NODES = 20


@dataclass(frozen=True, eq=False)
class Shape:
    """Public numbers: sizes (n,) of the nodes, features p, classes K (0: regression), the rows'
    norm bound, notes, the number by which rows are divided, and a schema's label."""

    sizes: Ints
    features: int
    classes: int
    norm: float | None
    labels: tuple[Any, ...]
    notes: tuple[str, ...] = ()
    row_scale: float = 1.0
    label: Label | None = None

    @property
    def nodes(self) -> int:
        return len(self.sizes)


def public_shape(config: RunConfig) -> Shape:
    """The shape of a run's data, from declarations; of a file only the records (and the node
    column) are counted."""
    data = config.data
    if data.name is not None or data.file is not None:
        needs_schema(data, config.problem.model)
    if data.name is not None:
        one = named_set(data.name, "data.name")
        return _spread(config, one.public_shape(named_options(data), data.with_intercept))
    if data.is_libsvm:
        assert data.file is not None and data.features is not None
        records = data.records if data.records is not None else _count_lines(data.file)
        found = PublicShape(records, data.features, len(data.labels or ()))
        return _spread(config, found.with_intercept() if data.with_intercept else found)
    if data.file is not None:
        return _of_file(config)
    if data.records is None or data.features is None:
        raise InputError(
            "the configuration names no data: give data.name (see `tacenda datasets`), "
            "data.file with data.schema, or, "
            "to account for a run only, data.records and data.features."
        )
    classes = 2 if data.classes is None else data.classes
    return _spread(config, PublicShape(data.records, data.features, classes))


def named_options(data: DataSection) -> dict[str, Any]:
    """The options with which a named set is loaded; one that it does not take is refused."""
    takes, options = named_set(data.name, "data.name").options, dict(data.options)
    wanted = {
        "encoding": data.encoding,
        "split": data.split,
        "sparse": data.sparse or None,
        "dtype": None if data.dtype == "float64" else np.dtype(data.dtype),
    }
    for key, value in wanted.items():
        if value is not None and key not in takes:
            raise InputError(
                f"data.{key} does not belong to the data set {data.name!r}; leave it out."
            )
        if value is not None:
            options[key] = value
    for key in options.keys() - takes:
        raise InputError(
            f"data.options: {key!r} is no option of the data set {data.name!r}, which takes "
            f"{', '.join(sorted(takes))}."
        )
    return options


def needs_schema(data: DataSection, model: str) -> None:
    """Refuse an additive model of data whose columns no schema declares."""
    if model != "linear" and data.table_schema is None:
        raise InputError(
            f"problem.model {model!r} makes curves of declared columns, and this data has no "
            "schema; give a CSV or Parquet file with --schema, or leave it at 'linear'."
        )


def schema_of_file(data: DataSection, model: str = "linear") -> Schema:
    """The public schema of a file, with an intercept and a column of persons where the
    configuration, or else the schema, asks for one, as that of this model."""
    from tacenda.data.schema import Schema

    assert data.table_schema is not None
    schema = Schema.read(data.table_schema)
    if data.person is not None:
        fields = schema.model_dump(mode="json", exclude_none=True)
        schema = Schema.build(**{**fields, "person": data.person})
    wanted = schema.intercept if data.intercept is None else data.intercept
    wanted = wanted or schema.label.stacked
    schema = schema.model_copy(update={"intercept": wanted}).as_model(model)
    return with_positive(schema, data)


def with_positive(schema: Schema, data: DataSection) -> Schema:
    """The schema with the configuration's positive class as the second."""
    if data.positive is None:
        return schema
    from tacenda.data.dataset import with_positive

    classes = with_positive(schema.label.classes, data.positive)
    return schema.model_copy(update={"label": schema.label.model_copy(update={"classes": classes})})


def has_persons(data: DataSection) -> bool:
    """Whether the data says which person is behind each record."""
    return data.table_schema is not None and schema_of_file(data).person is not None


def declared_shape(config: RunConfig) -> Shape | None:
    """The shape of a file's data by declarations and its header, with a made-up number of records
    where they would be counted; None for other data, or where a column says who holds what. It
    serves to refuse what is wrong before any record is read."""
    data = config.data
    if data.file is None:
        return None
    if data.table_schema is not None:
        from tacenda.data.cells import check_columns

        schema = schema_of_file(data, config.problem.model)
        check_columns(schema, data.file)
        if partition_of(config.network, schema.node_column is not None) == "column":
            return None
    sizes = config.network.sizes
    made_up = sum(sizes) if isinstance(sizes, list) else 1000 * node_count(config.network)
    some = data.model_copy(update={"records": data.records or made_up})
    return public_shape(config.model_copy(update={"data": some}))


def _of_file(config: RunConfig) -> Shape:
    from tacenda.data.cells import check_columns

    data = config.data
    assert data.file is not None
    schema = schema_of_file(data, config.problem.model)
    check_columns(schema, data.file)
    notes = []
    if schema.missing == "drop":
        notes.append(
            "records with missing values are dropped, "
            "so the run may see fewer records than were counted here"
        )
    owners = _owners(config, schema.node_column)
    if owners is None:
        records = data.records if data.records is not None else _count(data.file)
    else:
        records = len(owners)
    classes = len(schema.label.classes or ())
    whole = PublicShape(records, len(schema.feature_names), classes, row_scale=schema.row_scale)
    found = _spread(config, whole, owners, notes)
    return replace(found, label=schema.label)


def partition_of(network: NetworkSection, has_owners: bool, has_persons: bool = False) -> str:
    """The partition in words: "auto" follows the node column where there is one, and else keeps the
    records of a person together."""
    if network.partition == "auto":
        if has_owners or has_persons:
            return "column" if has_owners else "person"
        return "even" if network.sizes is None else "sizes"
    if network.partition == "column" and not has_owners:
        raise InputError(
            "network.partition 'column' needs a node_column in the schema; declare one, "
            "or use 'even'."
        )
    return network.partition


def check_node_column(network: NetworkSection, found: int) -> None:
    """Refuse a number of nodes beside a node column that names another number of them."""
    if network.nodes is not None and network.nodes != found:
        raise InputError(
            f"network.nodes (--nodes) is {network.nodes}, but the schema's node_column says who "
            f"holds each record, and it names {counted(found, 'node')}; leave the number out, or "
            f"set "
            "network.partition = 'even' to spread the records evenly instead."
        )


def public_notes(data: DataSection) -> tuple[str, ...]:
    """The condition that comes with a public sample."""
    if data.public is None:
        return ()
    return (
        f"the step was tuned on the records of {Path(data.public).name}, which were declared "
        "public: they have no protection, and nothing is charged for them",
    )


def promise_notes(config: RunConfig, how: str, n: int) -> tuple[str, ...]:
    """What the split of the records leaves of the promise: refused, or said, where it is about the
    nodes and not about the table."""
    from tacenda.data.partition import broken_promise

    relation, data = config.privacy.adjacency, config.data
    if not config.privacy.private or (data.name is None and data.file is None):
        return ()
    by_person = has_persons(data)
    if data.test_fraction and not by_person and broken_promise("sizes", relation, 2) is not None:
        raise InputError(
            f"data.test_fraction must be 0 under adjacency {relation!r}: "
            "which records are set aside depends on how many there are, "
            "so one more record would bring others into the run. Set test records aside in a "
            "separate file."
        )
    why = broken_promise(how, relation, n)
    if why is None:
        return ()
    if relation == "add-remove" or data.file is not None:
        raise InputError(
            f"network.partition {how!r} does not keep a promise under adjacency {relation!r}: "
            f"{why}. Name each record's holder (node_column in the schema), use one node, or, "
            "for a split by count, adjacency 'replace-one'."
        )
    return (
        f"{why}: the promise is for the records as they are on the nodes, "
        "not for the table that was divided",
    )


def _owners(config: RunConfig, column: str | None) -> Array | None:
    """(records,) whose record each is, if the file says so and the run follows it."""
    if partition_of(config.network, column is not None) != "column":
        return None
    from tacenda.data.coded import words_of
    from tacenda.data.readers import iter_tables

    assert column is not None
    tables = iter_tables(str(config.data.file), names=[column])
    return np.concatenate([words_of(table.columns[column]) for table in tables]).astype(str)


def _count(file: str) -> int:
    from tacenda.data.readers import column_names, iter_tables

    return sum(len(table) for table in iter_tables(file, names=column_names(file)[:1]))


def _count_lines(file: str) -> int:
    from tacenda.data.libsvm import existing, open_binary

    with open_binary(existing(file)) as stream:
        return sum(1 for line in stream if line.split(b"#", 1)[0].strip())


def _spread(
    config: RunConfig, whole: PublicShape, owners: Any = None, notes: Sequence[str] = ()
) -> Shape:
    """The records over the nodes."""
    records, p, classes, norm = whole.records, whole.features, whole.classes, whole.norm
    network, words = config.network, [*notes, *public_notes(config.data)]
    by_person = has_persons(config.data)
    if config.data.test_fraction and not by_person:
        _, kept = split_positions(records, config.data.test_fraction, config.data.split_seed)
        owners, records = None if owners is None else owners[kept], len(kept)
    if owners is not None:
        names, sizes = np.unique(owners, return_counts=True)
        check_node_column(network, len(names))
        words += promise_notes(config, "column", len(names))
        labels = tuple(names.tolist())
        sizes = sizes.astype(np.int64)
        return Shape(sizes, p, classes, norm, labels, tuple(words), whole.row_scale)
    n = node_count(network)
    if n > records:
        raise InputError(
            f"network.nodes must be at most the number of records ({records}), not {n}."
        )
    sizes = _sizes(network, records, n)
    words += promise_notes(config, partition_of(network, False, by_person), n)
    if network.partition == "label-skew":
        words.append(
            "the sizes of a label-skew partition follow the labels; equal sizes are assumed here"
        )
    return Shape(sizes, p, classes, norm, tuple(range(n)), tuple(words), whole.row_scale)


def _sizes(network: NetworkSection, records: int, n: int) -> Ints:
    from tacenda.data import partition

    blank = np.zeros((records, 1))
    if partition_of(network, False) == "sizes":
        law = "power" if network.sizes is None else network.sizes
        shards = partition.by_sizes(
            blank,
            blank[:, 0],
            law,
            n if isinstance(law, str) else None,
            network.spread,
            network.partition_seed,
        )
    else:
        shards = partition.even(blank, blank[:, 0], n)
    return np.array([len(y) for _, y in shards], np.int64)


def split_positions(records: int, fraction: float, seed: int) -> tuple[Ints, Ints]:
    """(test, kept): which records are set aside for testing, drawn by position alone, in order."""
    from tacenda.data.partition import by_sizes

    aside = round(records * fraction)
    if not 0 < aside < records:
        raise InputError(
            f"data.test_fraction {fraction:g} of {records} records sets {aside} aside; "
            "choose another share."
        )
    numbers = np.arange(records)
    (_, test), (_, kept) = by_sizes(numbers[:, None], numbers, [aside, records - aside], seed=seed)
    return np.sort(test), np.sort(kept)


def node_count(network: NetworkSection) -> int:
    """How many nodes the network has, from its declaration."""
    if isinstance(network.sizes, list):
        return len(network.sizes)
    if ":" in network.graph:
        from tacenda.graph import parse

        return parse(network.graph).n
    if network.rows is not None and network.columns is not None:
        return network.rows * network.columns
    if network.dimension is not None:
        return int(2**network.dimension)
    return DEFAULT_NODES if network.nodes is None else network.nodes
