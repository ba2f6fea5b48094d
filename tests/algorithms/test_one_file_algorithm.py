"""An algorithm is one file: that of docs/adding-an-algorithm.md runs by name everywhere, with
nothing else touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tacenda as tc
from node_stage import Crowd, simulated, small_contract
from tacenda.algorithms import registry
from tacenda.algorithms.base import Algorithm
from tacenda.errors import InputError, PrivacyError
from tacenda_node.peer.run_plan import make_plan

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-algorithm.md"
ENTRY = "[tacenda.algorithms]\ndgd = dgd:DGD\n"


@pytest.fixture(autouse=True)
def own_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "ALGORITHMS", dict(registry.ALGORITHMS))
    yield
    sys.modules.pop("dgd", None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's class as an installed package,
    here and in every process that is started from here."""
    block = re.search(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    assert block is not None
    text, found, _ = block[1].partition("\ndata = ")
    assert found
    home = tmp_path / "site"
    (home / "dgd-1.0.dist-info").mkdir(parents=True)
    (home / "dgd.py").write_text(text, "utf-8")
    (home / "dgd-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: dgd\nVersion: 1.0\n", "utf-8"
    )
    (home / "dgd-1.0.dist-info" / "entry_points.txt").write_text(ENTRY, "utf-8")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]))
    return home


def tacenda(*words: str | Path, code: int = 0) -> str:
    """One command in a process of its own."""
    line = [sys.executable, "-m", "tacenda", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_it_is_known_on_the_command_line_and_in_files(installed: Path, tmp_path: Path) -> None:
    assert "dgd" in [row["name"] for row in json.loads(tacenda("algorithms", "--json"))]
    assert "Decentralised gradient descent" in tacenda("algorithms", "dgd")
    assert "consistent" in tacenda(
        "audit",
        "dgd",
        "--epsilon",
        "1",
        "--rounds",
        "2",
        "--trials",
        "200",
        "--seed",
        "0",
        "--quiet",
    )
    file = tmp_path / "run.toml"
    file.write_text(
        '[data]\nname = "classification"\n[network]\nnodes = 4\n[algorithm]\nname = "dgd"\n'
        "step_size = 0.3\n[privacy]\nepsilon = 3.0\n[run]\nrounds = 5\n",
        "utf-8",
    )
    tacenda("fit", file, "--folder", tmp_path / "out", "--quiet")
    assert (tmp_path / "out" / "results").is_dir()
    assert "'dgd'" in tacenda("algorithms", "dgdd", code=2)


def test_real_peers_run_it_as_the_simulation_does(installed: Path, tmp_path: Path) -> None:
    terms = registry.with_code({"name": "dgd", "step_size": 0.3})
    crowd = Crowd(tmp_path / "crowd", small_contract(3, rounds=4, algorithm=terms), seed=5)
    crowd.start()
    np.testing.assert_allclose(crowd.finish(), simulated(crowd.stage, seed=5), rtol=0, atol=1e-12)


def test_a_member_with_other_code_refuses_to_start(installed: Path, tmp_path: Path) -> None:
    crowd = Crowd(
        tmp_path / "crowd",
        small_contract(3, rounds=4, algorithm=registry.with_code({"name": "dgd"})),
        seed=5,
    )
    file = installed / "dgd.py"
    file.write_text(
        file.read_text("utf-8").replace("self.step_size * noisy", "2 * self.step_size * noisy"),
        "utf-8",
    )
    crowd.start("m0")
    try:
        assert crowd.wait(60, ["m0"]) == {"m0": 2}
    finally:
        crowd.stop()
    assert "'dgd' has other code here" in crowd.output("m0")


def test_a_contract_must_say_which_code_is_meant(installed: Path) -> None:
    with pytest.raises(
        PrivacyError, match="contract field algorithm.code: dgd is a plugin"
    ) as refused:
        make_plan(small_contract(algorithm={"name": "dgd"}))
    terms = registry.with_code({"name": "dgd"})
    assert terms["code"] in str(refused.value)
    plan = make_plan(small_contract(algorithm=terms))
    # Nothing but full gradients: noise on whole numbers
    assert plan.spec.algorithm.name == "dgd" and plan.on_lattice
    assert (
        small_contract(algorithm=terms).run_id()
        != small_contract(algorithm={"name": "dgd"}).run_id()
    )
    assert registry.with_code({"name": "ipadmm"}) == {"name": "ipadmm"}


def test_every_source_file_of_a_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "two_files"
    home.mkdir()
    (home / "__init__.py").write_text("from two_files.method import Method\n", "utf-8")
    (home / "helper.py").write_text("FACTOR = 1\n", "utf-8")
    (home / "method.py").write_text(
        "from tacenda.algorithms import ADMM\nclass Method(ADMM): name = 'two'\n", "utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from two_files import Method

    before = registry.code_hash(Method)
    (home / "helper.py").write_text("FACTOR = 2\n", "utf-8")
    assert before is not None and registry.code_hash(Method) != before
    assert registry.code_hash(tc.algorithms.ADMM) is None


@dataclass(frozen=True)
class Mine(tc.algorithms.IPADMM):
    name: ClassVar[str] = "mine"


def test_registration_in_one_process() -> None:
    assert tc.algorithms.register(Mine) is Mine
    assert isinstance(tc.algorithms.by_name("mine", penalty=0.2), Mine)
    tc.algorithms.register(Mine)  # a notebook's cell may run twice


def _named(word: Any, fields: dict[str, Any] | None = None) -> type[Algorithm]:
    body = {"name": word, "__annotations__": dict.fromkeys(fields or {}, "float"), **(fields or {})}
    return dataclass(frozen=True)(type("Made", (tc.algorithms.IPADMM,), body))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: _named("ipadmm"),
            "'ipadmm' is the name of tacenda.algorithms.linearised.IPADMM already",
        ),
        (lambda: _named("Two words"), "must be a word of lower-case letters"),
        (lambda: _named("made", {"code": 1.0}), "'code' cannot be a hyperparameter"),
        (
            lambda: type("Bare", (tc.algorithms.IPADMM,), {"name": "bare"}),
            "decorated with @dataclass",
        ),
        (lambda: "ipadmm", "takes a class derived from Algorithm"),
    ],
)
def test_what_cannot_be_registered(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        tc.algorithms.register(make())


def test_an_entry_point_that_does_not_load_or_has_another_name(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = installed / "dgd-1.0.dist-info" / "entry_points.txt"
    for text, words in (
        ("other = dgd:DGD", "has the name 'dgd'"),
        ("other = dgd:Nothing", "cannot be loaded"),
    ):
        points.write_text(f"[tacenda.algorithms]\n{text}\n", "utf-8")
        with pytest.raises(InputError, match=words):
            tc.algorithms.by_name("other")


def test_a_class_without_a_source_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed at a prompt, or made by a program: nobody can tell whether others run the same."""
    monkeypatch.setitem(sys.modules, "typed_at_a_prompt", types.ModuleType("typed_at_a_prompt"))
    kind = type("Typed", (tc.algorithms.DPDDA,), {"__module__": "typed_at_a_prompt"})
    with pytest.raises(InputError, match="Typed has no source file"):
        registry.code_hash(kind)
    monkeypatch.delitem(sys.modules, "typed_at_a_prompt")
    with pytest.raises(InputError, match="Typed has no source file"):
        registry.code_hash(kind)
    assert registry.code_hash(tc.algorithms.DPDDA) is None
