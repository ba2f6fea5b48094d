"""From a configuration to the private half of a run:
the records, held by their nodes, as a `Problem`."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacenda.content import content_hash
from tacenda.data.dataset import Dataset
from tacenda.data.lazy_rows import LazyRows
from tacenda.data.partition import Shards
from tacenda.data.schema import Schema
from tacenda.errors import InputError
from tacenda.evaluation.units import Units
from tacenda.graph.topology import Topology
from tacenda.problem.problem import Problem
from tacenda.runs.objects import declared_of, graph_of
from tacenda.runs.sections import DataSection, NetworkSection, RunConfig
from tacenda.runs.shape import (
    check_node_column,
    named_options,
    needs_schema,
    node_count,
    partition_of,
    promise_notes,
    public_notes,
    schema_of_file,
    split_positions,
    with_positive,
)
from tacenda.runtime.held_out import HeldOutRecords
from tacenda.runtime.local_shards import LocalShards
from tacenda.runtime.ranks import ALONE, Ranks

WIDE_LABEL = 10.0


@dataclass(frozen=True, eq=False)
class PrivateRun:
    """The records as a problem over a graph, and where they came from; over several ranks those of
    this rank's nodes alone.

    shards: those of this process's nodes; test: the test part (X, y) if there is one, of
    which each rank has a share; records: how many there are of all nodes; node_labels: names of all
    nodes, where they have any.
    """

    dataset: Dataset
    shards: LocalShards
    graph: Any
    test: tuple[Any, Any] | None
    schema: Schema | None
    records: int
    node_labels: tuple[Any, ...] | None

    @property
    def problem(self) -> Problem:
        """The problem of the nodes here: of all nodes, unless there are several ranks."""
        return self.shards.problem

    @property
    def label_units(self) -> Units:
        """Of the label, with its bounds."""
        return Units.of(None if self.schema is None else self.schema.label)

    @cached_property
    def test_records(self) -> HeldOutRecords | None:
        """The test part; all ranks ask for it at once."""
        return HeldOutRecords.of(self.test, self.problem, self.shards.ranks)


def private_run(config: RunConfig, ranks: Ranks = ALONE) -> PrivateRun:
    """Load, split, spread over the nodes, and state the problem. Over several ranks, each reads the
    labels of all records and the features of its own, where the source allows that
    (`docs/cluster.md` says which do)."""
    several = ranks.size > 1
    most = config.privacy.records_per_person
    dataset, schema = ranks.agreed(
        lambda: load(
            config.data,
            most,
            lazy=several and _divides_unread(config.network),
            model=config.problem.model,
        ),
        "reading the data",
    )
    if schema is not None and not Units().of_loss(config.problem.loss).log_scores:
        _advise(schema)
    if most is None and dataset.persons is not None and config.privacy.private:
        warnings.warn(
            "the data names persons, but records_per_person is not declared: the promise is for "
            "one record, and a person with several is protected less; for a promise to persons "
            "give --records-per-person K --adjacency add-remove --set problem.public_size=N.",
            stacklevel=2,
        )
    how = partition_of(config.network, dataset.nodes is not None, dataset.persons is not None)
    words = promise_notes(config, how, 2 if how == "column" else node_count(config.network))
    dataset = replace(dataset, notes=[*dataset.notes, *words, *public_notes(config.data)])
    if several:
        found = content_hash((dataset.y, dataset.nodes, dataset.persons))
        ranks.check_same({"the records' labels": found}, "give all of them the same data")
    if several and not ranks.root:  # for the ledger, which is the root's
        dataset = replace(dataset, fingerprints=None, test_fingerprints=None)
    if config.data.test_fraction:
        dataset = split(dataset, config.data.test_fraction, config.data.split_seed)
    shards = ranks.agreed(lambda: spread(dataset, config.network), "dividing the records")
    graph = graph_of(config.network, shards.labels)
    names = None if shards.labels == tuple(range(len(shards))) else tuple(graph.labels)
    records, test = dataset.n_records, dataset.test
    if several:
        mine = ranks.parts(Topology.of(graph), config.run.blocks)[ranks.rank]
        if names is not None:
            place = {label: k for k, label in enumerate(shards.labels)}
            mine = np.array([place[names[k]] for k in mine.tolist()])
        shards = ranks.agreed(lambda: shards.of_nodes(mine), "reading its nodes' records")
        if names is not None:  # as a dict by label, which says neither
            shards = Shards(shards, persons=None if most is None else shards.persons)
        test = ranks.agreed(lambda: _share(test, ranks), "reading its test records")
        dataset = _emptied(dataset, test)
    problem = ranks.agreed(
        lambda: _problem(config, dataset, schema, shards, names if not several else None),
        "checking its nodes' records",
    )
    local, _ = LocalShards.of(problem, graph, config.run.blocks, ranks)
    return PrivateRun(dataset, local, graph, test, schema, records, names)


def _problem(
    config: RunConfig,
    dataset: Dataset,
    schema: Schema | None,
    shards: Shards,
    names: tuple[Any, ...] | None,
) -> Problem:
    """The nodes' records with what is declared about them; names: in which order, if not theirs."""
    section, most = config.problem, config.privacy.records_per_person
    classes = 0 if dataset.classes is None else len(dataset.classes)
    given: Any = shards
    persons: Any = shards.persons
    if names is not None:
        given = {k: shards.as_dict()[k] for k in names}
        if persons is not None:
            persons = dict(zip(shards.labels, persons, strict=True))
    label = None if schema is None else schema.label
    return Problem(
        given,
        **declared_of(section, classes, dataset.norm, dataset.row_scale, label),
        on_large_rows=section.on_large_rows,
        classes=range(classes) if classes else None,
        public_sizes=section.public_size,
        persons=persons if most is not None else None,
        records_per_person=1 if most is None else most,
        members_per_person=config.privacy.members_per_person,
        fingerprints=dataset.fingerprints,
    )


def _divides_unread(network: NetworkSection) -> bool:
    """Whether the split over nodes can be made before features are read: all but by a random
    direction."""
    return network.partition != "feature-shift" or network.feature is not None


def _share(test: tuple[Any, Any] | None, ranks: Ranks) -> tuple[Any, Any] | None:
    """This rank's part of the test records: parts follow each other as the ranks do."""
    if test is None:
        return None
    X, y = test
    own = np.array_split(np.arange(len(y)), ranks.size)[ranks.rank]
    return X[own].read() if isinstance(X, LazyRows) else X[own], y[own]


def _emptied(dataset: Dataset, test: tuple[Any, Any] | None) -> Dataset:
    """What is known about the data, without the records."""
    X = dataset.X[:0].read() if isinstance(dataset.X, LazyRows) else dataset.X[:0].copy()
    y = dataset.y[:0].copy()
    return replace(dataset, X=X, y=y, nodes=None, persons=None, test=test, test_persons=None)


def load(
    data: DataSection,
    records_per_person: int | None = None,
    *,
    lazy: bool = False,
    model: str = "linear",
) -> tuple[Dataset, Schema | None]:
    """The encoded records, and the public schema that encoded them, where there is one; of each
    person so many records at most. lazy: features are read later, where the source can do that;
    small sets are read at once. model: as in `Schema.as_model`."""
    needs_schema(data, model)
    if records_per_person is not None and data.table_schema is None:
        raise InputError(
            f"privacy.records_per_person ({records_per_person}) needs the persons' ids, which a "
            "file with a schema has (--data, --schema, --person); leave it out, or give these."
        )
    if data.is_libsvm:
        return _ordered(_libsvm(data, lazy), data), None
    if data.file is not None and data.table_schema is not None:
        from tacenda.data.encoding import encode

        schema = schema_of_file(data, model)
        found = encode(
            schema,
            data.file,
            sparse=data.sparse,
            dtype=np.dtype(data.dtype),
            records_per_person=records_per_person,
            lazy=lazy,
        )
        return found, schema
    if data.name is None:
        raise InputError(
            "the configuration names no data to learn from: "
            "give --data with a name of `tacenda datasets`, "
            "or a CSV or Parquet file together with --schema."
        )
    return _named(data, lazy)


def _advise(schema: Schema) -> None:
    """One warning for a label in a unit so small that bounded gradients would take forever
    to reach its values."""
    label = schema.label
    if (
        label.classes is None
        and label.scale_to is None
        and max(abs(label.low or 0.0), abs(label.high or 0.0)) > WIDE_LABEL
    ):
        warnings.warn(
            f"label {label.name!r} reaches from {label.low:g} to {label.high:g} in its own unit, "
            "too far for gradients of bounded size; set scale_to = 'symmetric' under [label] of "
            "the "
            "schema to learn it between -1 and 1.",
            UserWarning,
            stacklevel=2,
        )


def _libsvm(data: DataSection, lazy: bool) -> Dataset:
    """A sparse file with declared features and labels; rows are shortened to norm 1."""
    from tacenda.data.libsvm import load_libsvm

    found = load_libsvm(
        str(data.file),
        data.features,
        classes=data.labels,
        norm=1.0,
        dtype=np.dtype(data.dtype),
        lazy=lazy,
    )
    return _with_intercept(found) if data.with_intercept else found


def _named(data: DataSection, lazy: bool) -> tuple[Dataset, Schema | None]:
    from tacenda.data import catalogue

    one, options = catalogue.named_set(data.name, "data.name"), named_options(data)
    own_intercept = "intercept" in one.options
    if data.with_intercept and own_intercept:
        options["intercept"] = True
    if lazy and "lazy" in one.options:
        options["lazy"] = True
    dataset = catalogue.load(str(data.name), **options)
    if data.with_intercept and not own_intercept:
        dataset = _with_intercept(dataset)
    return _ordered(dataset, data), _schema_of(data)


def _ordered(dataset: Dataset, data: DataSection) -> Dataset:
    return dataset if data.positive is None else dataset.with_positive(data.positive)


def _schema_of(data: DataSection) -> Schema | None:
    if data.name == "adult" and data.encoding != "papers":
        from tacenda.data.adult import adult_schema

        return with_positive(adult_schema(intercept=data.with_intercept), data)
    return None


def _with_intercept(dataset: Dataset) -> Dataset:
    from tacenda.data.features import add_intercept, within_unit_norm

    if dataset.norm is None:  # no public number to divide by
        names = (*dataset.feature_names, "intercept")
        return replace(dataset, X=add_intercept(dataset.X), feature_names=names)
    X, names, scale = within_unit_norm(
        dataset.X, dataset.feature_names, dataset.norm, intercept=True
    )
    return replace(dataset, X=X, feature_names=names, norm=1.0, row_scale=scale)


def split(dataset: Dataset, fraction: float, seed: int) -> Dataset:
    """A seeded share of the records set aside as the test part."""
    if dataset.test is not None:
        raise InputError(
            "data.test_fraction must be 0 for a data set that brings its own test part."
        )
    if dataset.persons is None:
        test, kept = split_positions(dataset.n_records, fraction, seed)
    else:
        from tacenda.data.holding_out import held_out_by_coin

        key = hashlib.sha256(f"test part {seed}".encode()).digest()
        held = held_out_by_coin(dataset.persons, fraction, key)
        test, kept = np.flatnonzero(held), np.flatnonzero(~held)
    nodes = None if dataset.nodes is None else dataset.nodes[kept]
    return replace(
        dataset,
        X=dataset.X[kept],
        y=dataset.y[kept],
        nodes=nodes,
        persons=None if dataset.persons is None else dataset.persons[kept],
        test=(dataset.X[test], dataset.y[test]),
        test_persons=None if dataset.persons is None else dataset.persons[test],
        fingerprints=None if dataset.fingerprints is None else dataset.fingerprints[kept],
        test_fingerprints=None if dataset.fingerprints is None else dataset.fingerprints[test],
    )


def spread(dataset: Dataset, network: NetworkSection) -> Any:
    """The records over the nodes, as the network section says."""
    from tacenda.data import partition

    X, y, seed = dataset.X, dataset.y, network.partition_seed
    how = partition_of(network, dataset.nodes is not None, dataset.persons is not None)
    if how == "column":
        assert dataset.nodes is not None
        shards = partition.by_column(X, y, dataset.nodes, dataset.persons)
        check_node_column(network, len(shards))
        return shards
    n = node_count(network)
    if how == "person":
        if dataset.persons is None:
            raise InputError(
                "network.partition 'person' needs the persons' ids; name their column as person "
                "in the schema, or with --person."
            )
        return partition.by_person(X, y, dataset.persons, n, f"nodes {seed}".encode())
    if how == "sizes":
        law = "power" if network.sizes is None else network.sizes
        return partition.by_sizes(
            X, y, law, n if isinstance(law, str) else None, network.spread, seed
        )
    if how == "label-skew":
        return partition.by_label_skew(X, y, n, network.concentration, seed)
    if how == "feature-shift":
        return partition.by_feature_shift(X, y, n, network.feature, network.shift, seed)
    return partition.even(X, y, n, seed)
