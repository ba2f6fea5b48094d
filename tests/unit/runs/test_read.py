"""The configuration file: what it accepts, what it refuses and in which words, and that it survives
a round trip."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacenda.errors import InputError
from tacenda.formats.text import toml
from tacenda.runs import read

plain = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), st.text(max_size=8)
    ),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=6),
        st.dictionaries(st.text(max_size=6), plain, min_size=1),
        max_size=3,
    )
)
def test_text_reads_back_as_the_same_values(values: dict) -> None:
    assert tomllib.loads(toml(values)) == values


def test_a_full_configuration_survives_the_round_trip() -> None:
    config = read.build(
        {
            "data": {"name": "adult", "encoding": "papers"},
            "network": {"graph": "erdos-renyi", "nodes": 30, "probability": 0.3},
            "algorithm": {
                "name": "radmm",
                "penalty": {"schedule": "geometric", "start": 1.0, "ratio": 1.01},
            },
            "compare": [{"name": "ipadmm", "rounds": 5, "label": "short"}],
            "privacy": {"epsilon": [1.0, 2.0], "spread": [0.5, 1.5]},
            "run": {"seeds": [1, 2], "metrics": ["objective"]},
        }
    )
    assert read.build(tomllib.loads(toml(config.to_plain()))) == config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"privcy": {}}, ["privcy", "did you mean 'privacy'"]),
        ({"privacy": {"epsilom": 1}}, ["[privacy]", "epsilom", "did you mean 'epsilon'"]),
        ({"data": {"shema": "x"}}, ["[data]", "did you mean 'schema'"]),
        ({"privacy": {"epsilon": "much"}}, ["privacy.epsilon", "'much'"]),
        ({"privacy": {"adjacency": "both"}}, ["privacy.adjacency", "replace-one", "'both'"]),
        ({"data": {"file": "a.csv"}}, ["there is no file a.csv"]),
        ({"data": {"file": "a.csv", "name": "adult", "schema": "s"}}, ["either name or file"]),
        ({"problem": {"strength": "lots"}}, ["problem.strength", "number or 'auto'", "'lots'"]),
        ({"run": {"rounds": 1.5}}, ["run.rounds"]),
        ({"run": {"seeds": [1, 1]}}, ["seeds", "different"]),
        ({"network": {"partition": "odd"}}, ["network.partition"]),
        ({"data": {"test_fraction": 1.0}}, ["data.test_fraction"]),
    ],
)
def test_mistakes_are_one_sentence_with_place_and_remedy(values: dict, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read.build(values, "run.toml")
    text = str(caught.value)
    assert text.startswith("run.toml: ") and "\n" not in text
    for word in words:
        assert word in text


def test_later_values_win_and_none_changes_nothing() -> None:
    base = {"run": {"rounds": 5, "seeds": [1]}, "privacy": {"epsilon": 2.0}}
    over = {
        "run": {"rounds": 7, "seeds": None},
        "privacy": None,
        "data": {"name": "iris", "split": None},
    }
    assert read.merged(base, over) == {
        "run": {"rounds": 7, "seeds": [1]},
        "privacy": {"epsilon": 2.0},
        "data": {"name": "iris"},
    }


def test_assignments_read_values_as_toml_and_else_as_text() -> None:
    found = read.assignments(
        ["run.rounds=50", "data.name=adult", "run.seeds=[1, 2]", "privacy.private=false"]
    )
    assert found == {
        "run": {"rounds": 50, "seeds": [1, 2]},
        "data": {"name": "adult"},
        "privacy": {"private": False},
    }
    assert read.assignments(["penalty=0.5"], "algorithm") == {"algorithm": {"penalty": 0.5}}
    for wrong in ("rounds=5", "run.rounds", ".=1"):
        with pytest.raises(InputError, match="section.key=value"):
            read.assignments([wrong])


def test_paths_are_meant_from_the_file_and_bad_files_are_named(tmp_path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    (tmp_path / "s.toml").write_text("")
    (tmp_path / "run.toml").write_text('[data]\nfile = "d.csv"\nschema = "s.toml"\n')
    assert read.read_file(tmp_path / "run.toml")["data"]["file"] == str(tmp_path / "d.csv")
    (tmp_path / "broken.toml").write_text("[data\n")
    with pytest.raises(InputError, match="not valid TOML"):
        read.read_file(tmp_path / "broken.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe9"\n')
    with pytest.raises(InputError, match="UTF-8"):
        read.read_file(tmp_path / "latin.toml")
    with pytest.raises(InputError, match="no configuration file"):
        read.read_file(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("name", "text"),
    [("d.csv", "a,b\n1,2\n"), ("d.csv.gz", "x"), ("d.xlsx", "PK"), ("d", "a;b\n1;2\n")],
)
def test_a_table_given_as_configuration_is_told_from_one(tmp_path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=rf"looks like data.*--data \S*{name} --schema d\S*\.toml"):
        read.read_file(tmp_path / name)


def test_a_configuration_of_any_name_is_none(tmp_path) -> None:
    (tmp_path / "run.conf").write_text('[data]\nname = "iris"\n')
    assert read.read_file(tmp_path / "run.conf") == {"data": {"name": "iris"}}


def test_a_file_that_is_missing_is_named_before_its_schema(tmp_path: Path) -> None:
    file = tmp_path / "records.csv"
    with pytest.raises(InputError, match="there is no file .*records.csv; check its name"):
        read.build({"data": {"file": str(file)}})
    file.write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match="a file needs a schema.*schema draft"):
        read.build({"data": {"file": str(file)}})
