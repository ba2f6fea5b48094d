"""`help` teaches: every parameter, attribute and method of every estimator is documented, and the
examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import numpy as np
import pytest

import tacenda as tc
from tacenda import estimators

KINDS = [
    getattr(estimators, name)
    for name in estimators.__all__
    if name.startswith("Private") and name not in ("PrivateLinearModel", "PrivateSearchCV")
]
SECTIONS = ("Parameters", "Attributes", "See Also", "Notes", "Examples")


def entries(text: str, title: str) -> dict[str, str]:
    """{name: text} of one section of a docstring in numpydoc's form."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^[A-Z][\w ]+\n-+\n|\Z)", text, re.M | re.S)
    assert found, title
    parts = re.split(r"^(\w+) : ", found.group(1), flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_documented_with_its_default(kind: Any) -> None:
    text = inspect.getdoc(kind) or ""
    assert not re.search(r"\{\w+\}", re.sub(r"\{label: weight\}", "", text))
    assert [text.index(f"\n{s}\n---") for s in SECTIONS] == sorted(
        text.index(f"\n{s}\n---") for s in SECTIONS
    )
    assert "differentially private" in text and "Conditions" in text
    documented = entries(text, "Parameters")
    parameters = inspect.signature(kind).parameters
    assert list(documented) == list(parameters)
    for name, parameter in parameters.items():
        said = re.search(r"default=(\S+)\n", documented[name])
        assert said and eval(said.group(1)) == parameter.default, name
    assert max(map(len, text.splitlines())) <= 96


def vars_of(kind: Any) -> dict[str, Any]:
    """What a class and its bases define."""
    return {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_fitted_attribute_is_documented(kind: Any) -> None:
    rng = np.random.default_rng(0)
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rng.uniform(-1, 1, (300, 2)), columns=["a", "b"])
    settings = {"bounds": (-1, 1), "n_nodes": 2, "rounds": 2}
    if "classes" in inspect.signature(kind).parameters:
        model = kind(**settings, classes=(0, 1)).fit(X, np.arange(300) % 2)
    elif kind is tc.PrivateDiscreteHazard:
        model = kind((1, 2), **settings).fit(X, np.tile([1.5, 1.0], (300, 1)))
    elif kind is tc.PrivateCoxRegression:
        model = kind((1, 2), None, bounds=(-1, 1)).fit(X, np.tile([1.5, 1.0], (300, 1)))
    elif "count_bound" in inspect.signature(kind).parameters:
        model = kind(**settings, count_bound=12).fit(X, np.arange(300) % 4)
    else:
        model = kind(**settings, target_bounds=(-1, 1)).fit(X, X["a"])
    names = {*vars(model), *(n for n, p in vars_of(kind).items() if isinstance(p, property))}
    public = {name for name in names if name.endswith("_") and not name.startswith("_")}
    fitted = {name for name in public if hasattr(model, name)}
    assert fitted == set(entries(inspect.getdoc(kind) or "", "Attributes"))


@pytest.mark.parametrize("kind", [*KINDS, tc.estimators.PrivateLinearModel])
def test_every_public_method_is_documented(kind: Any) -> None:
    for name, method in inspect.getmembers(kind, callable):
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        text = inspect.getdoc(method) or ""
        assert text, f"{kind.__name__}.{name}"
        if name.startswith(("set_", "get_")):
            continue
        # In a section, or in a sentence that begins with the name (tests/unit/test_docstrings.py)
        listed = entries(text, "Parameters") if "Parameters\n---" in text else {}
        described = {*listed, *re.findall(r"\b(\w+): ", text)}
        wanted = {p for p in inspect.signature(method).parameters if p != "self"}
        assert wanted <= described, f"{kind.__name__}.{name}: {wanted - described}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_run(kind: Any) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(kind, kind.__name__, globs={})
    assert len(example.examples) > 4
    assert doctest.DocTestRunner().run(example).failed == 0
