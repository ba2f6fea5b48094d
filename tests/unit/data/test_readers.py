"""Readers: CSV in the shapes that users have, DuckDB for the rest, and one helpful sentence for
each bad file."""

import builtins
import gzip
import importlib.util

import numpy as np
import pytest

from tacenda import data
from tacenda.data import csv_files, duck, readers
from tacenda.data.coded import words_of
from tacenda.errors import InputError

CSV = 'age,ward,ill\n30,"south, wing",yes\n\n70,north,no\n'
EXPECTED = {"age": ["30", "70"], "ward": ["south, wing", "north"], "ill": ["yes", "no"]}


def cells(table):
    return {name: column.tolist() for name, column in table.columns.items()}


@pytest.fixture
def write(tmp_path):
    def file(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return file


@pytest.fixture(params=["careful", "quick", "quick in small blocks"])
def way(request, monkeypatch):
    """The ways through a CSV file: Python's csv, and the compiled loops."""
    if request.param != "careful":
        monkeypatch.setattr(csv_files, "SMALL_CSV", 0)
    if "small" in request.param:
        monkeypatch.setattr(csv_files, "BLOCK_BYTES", 3)
        monkeypatch.setattr(csv_files, "PIECE_CELLS", 4)


@pytest.mark.parametrize(
    "content",
    [
        CSV,
        "\ufeff" + CSV,
        CSV.replace("\n", "\r\n"),
        CSV.rstrip("\n"),
        CSV.replace(",", ", ").replace('"south,  wing"', '"south, wing"'),
    ],
    ids=["plain", "byte-order mark", "windows", "no last newline", "spaces"],
)
def test_csv(write, way, content):
    assert cells(data.read_table(write(content))) == EXPECTED


def test_other_separators_and_gzip(write, way):
    for mark in ";\t|":
        assert cells(data.read_table(write(f"a{mark}b\n1{mark}x,y\n"))) == {
            "a": ["1"],
            "b": ["x,y"],
        }
    assert cells(data.read_table(write(gzip.compress(CSV.encode()), "t.csv.gz"))) == EXPECTED


def test_one_column_and_names(write, way):
    assert cells(data.read_table(write("a\n1\n2\n"))) == {"a": ["1", "2"]}
    assert cells(data.read_table(write("1,2\n3,4\n"), names=["a", "b"])) == {
        "a": ["1", "3"],
        "b": ["2", "4"],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"is empty \(0 bytes\)"),
        (b"\n\n", "no header line"),
        (b"a,b\n", "header but no records"),
        (b"a,b\n1,secret,3\n", "line 2 of t.csv has 3 fields where the header has 2"),
        (b"a,b\n1,2\n\n1\n", "line 4 of t.csv has 1 fields"),
        (b"a,a\n1,2\n", "names 'a' twice"),
        (b"a,,b\n1,2,3\n", "column 2 of t.csv has no name"),
        ("a,b\ncafé,1\n".encode("latin1"), "must be UTF-8.*iconv"),
        ("a,b\nx,1\n".encode("utf-16"), "must be UTF-8"),
        (b'a,b\n"secret,1\n2,3\n', "not well-formed CSV near line 3"),
    ],
)
def test_bad_files_get_one_sentence(write, way, content, words):
    with pytest.raises(InputError, match=words) as caught:
        data.read_table(write(content))
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_and_a_broken_gzip(write, way, tmp_path):
    with pytest.raises(InputError, match="is not there"):
        data.read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="not a whole gzip file"):
        data.read_table(write(gzip.compress(CSV.encode())[:-9], "t.csv.gz"))
    with pytest.raises(InputError, match="not a whole gzip file"):
        data.read_table(write(CSV, "t.csv.gz"))


def test_a_line_of_separators_is_a_record_and_a_ragged_one_may_be(write, way):
    gaps = "a,b\n1,x\n,\n\n  \n , \n2,y\n"
    assert cells(data.read_table(write(gaps))) == {"a": ["1", "", "", "2"], "b": ["x", "", "", "y"]}
    assert cells(data.read_table(write("\n,\na,b\n1,x\n"))) == {"a": ["1"], "b": ["x"]}
    for bad in ("1,x,z", "1", ",,"):
        path = write(f"a,b\n{bad}\n2,y\n{bad}\n3,z\n")
        with pytest.raises(InputError, match="line 2 of t.csv has"):
            data.read_table(path)
        for _ in range(2):  # no copy of it is kept
            found = data.read_table(path, ragged="blank")
            assert cells(found) == {"a": ["", "2", "", "3"], "b": ["", "y", "", "z"]}
        with pytest.raises(InputError, match="line 2 of t.csv has"):
            data.read_table(path)
        with pytest.raises(InputError, match="line 1 of t.csv has"):
            data.read_table(write(f"{bad}\n2,y\n"), names=["a", "b"])


PIECES = [
    *("1", "22.5", "x y", " z", "w ", "ä€", "\U0001f600", "", "", "NA", "'", "\t", "\0"),
    *('"a,b"', '"say ""no"""', '"two\nlines"', '"two\r\nlines"', '""', '" in "', ' "in"', '"""x"'),
]
STRAY = ['"', '"open', '"shut" late', 'x"y', '"a"b"', "one,more", "\xff", '"a""', "x" * 140_000]


def nasty(rng):
    """A CSV file in bytes, mostly well-formed, by chance."""
    width, mark = int(rng.integers(1, 5)), rng.choice([",", ";", "\t", "|"])
    lines = [mark.join(f"c{k}" for k in range(width))]
    for _ in range(int(rng.integers(1, 30))):
        fields = [str(rng.choice(PIECES)) for _ in range(width)]
        if rng.random() < 0.02:
            fields[0] = STRAY[rng.integers(len(STRAY))]
        bare = str(rng.choice(["", "  ", mark * (width - 1)]))
        lines.append(mark.join(fields) if rng.random() < 0.9 else bare)
    end = str(rng.choice(["\n", "\r\n", "\r"]))
    text = end.join(lines) + (end if rng.random() < 0.5 else "")
    start = "\ufeff" if rng.random() < 0.2 else ""
    return (start + text).encode("utf-8").replace("\xff".encode(), b"\xff")


def gone_through(path, **how):
    """Everything that a reader tells of a file: tables, numbers of records, or the error."""
    try:
        tables = list(readers.iter_tables(path, **how))
    except InputError as error:
        return str(error)
    return [(cells(t), [t.number(k) for k in range(len(t))]) for t in tables]


def test_nasty_files_mean_to_the_compiled_loops_what_they_mean_to_csv(write, monkeypatch):
    rng = np.random.default_rng(5)
    refused = 0
    for trial in range(200):
        path = write(nasty(rng))
        whole = gone_through(path, rows=10**6)
        only = np.flatnonzero(rng.random(40) < 0.2)
        hows = [{"rows": 10**6}, {"rows": 3}, {"rows": 4, "names": ["c1"], "only": only}]
        hows += [{**how, "ragged": "blank"} for how in hows]
        hows = hows if trial % 3 == 0 else hows[:1]
        careful = [gone_through(path, **how) for how in hows]
        least = 1 if path.stat().st_size < 10_000 else 50_000
        for size in (10**6, least * int(rng.integers(1, 40))):
            with monkeypatch.context() as patch:
                patch.setattr(csv_files, "SMALL_CSV", 0)
                patch.setattr(csv_files, "BLOCK_BYTES", size)
                patch.setattr(csv_files, "PIECE_CELLS", int(rng.integers(1, 50)))
                for how, expected in zip(hows, careful, strict=True):
                    found = gone_through(path, **how)
                    if isinstance(expected, str):  # of several faults either may be told first
                        assert isinstance(found, str) or "only" in how
                    else:  # csv counts blank lines among the rows of a chunk
                        assert end_to_end(found) == end_to_end(expected)
        refused += isinstance(whole, str)
    assert 20 < refused < 120


def end_to_end(tables):
    columns = {}
    for table, _ in tables:
        for name, column in table.items():
            columns.setdefault(name, []).extend(column)
    return columns, [number for _, numbers in tables for number in numbers]


def test_coded_columns_look_like_arrays(write, way):
    column = data.read_table(write("a,b\nx,1\ny,2\nx,3\n")).columns["a"]
    assert len(column) == 3 and column[1] == "y" and column[-1] == "x"
    assert column[1:].tolist() == ["y", "x"] == list(column[np.array([False, True, True])])
    assert np.asarray(column).tolist() == ["x", "y", "x"] and column.dtype == object
    assert (np.asarray(column) == "x").tolist() == [True, False, True]


SCHEMA = data.Schema.build(
    columns=[{"kind": "numeric", "name": "x", "low": 0, "high": 10}],
    label={"name": "y", "classes": ["0", "1"]},
    row_norm=1.0,
)


def test_files_are_encoded_chunk_by_chunk(write, monkeypatch):
    path = write("x,y\n" + "".join(f"{k % 12},{k % 2}\n" for k in range(1000)))
    whole = data.encode(SCHEMA, data.read_table(path))
    seen = []
    original = readers.iter_csv
    monkeypatch.setattr(
        readers,
        "iter_csv",
        lambda p, **more: (seen.append(len(t)) or t for t in original(p, **{**more, "rows": 64})),
    )
    for sparse in (False, True):
        d = data.encode(SCHEMA, path, sparse=sparse)
        np.testing.assert_array_equal(d.X.toarray() if sparse else d.X, whole.X)
        np.testing.assert_array_equal(d.y, whole.y)
    assert max(seen) == 64 and len(seen) == 32


def test_record_numbers_count_through_the_chunks(write, monkeypatch):
    lines = [f"{k},1" for k in range(200)]
    lines[150] = "oops,1"
    original = readers.iter_csv
    monkeypatch.setattr(readers, "iter_csv", lambda p, **more: original(p, **{**more, "rows": 64}))
    with pytest.raises(InputError, match="record 151 holds other text"):
        data.encode(SCHEMA, write("x,y\n" + "\n".join(lines)))


def test_parquet_and_sql_through_duckdb(write, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    parquet, database = tmp_path / "t.parquet", tmp_path / "t.db"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 2.5), (2, NULL, NULL)) v(n, s, f)"
        )
        connection.execute(f"COPY t TO '{parquet}' (FORMAT parquet)")
    for table in (
        data.read_table(parquet),
        data.read_table(f"SELECT * FROM '{parquet}'"),
        data.read_table("select * from t", database=database),
    ):
        assert table.columns["n"].tolist() == [1.0, 2.0] and table.columns["s"].tolist() == [
            "a",
            None,
        ]
        assert table.columns["f"][0] == 2.5 and np.isnan(table.columns["f"][1])
    with pytest.raises(InputError, match="query could not be run.*nowhere"):
        data.read_table("SELECT * FROM nowhere")
    with pytest.raises(InputError, match="gives no records"):
        data.read_table(f"SELECT * FROM '{parquet}' WHERE n > 5")
    with pytest.raises(InputError, match="ConversionException") as caught:
        data.read_table(f"SELECT CAST(s AS INTEGER) FROM '{parquet}'")
    assert "'a'" not in str(caught.value)
    with pytest.raises(InputError, match=r"could not read b.parquet"):
        data.read_table(write(b"not parquet", "b.parquet"))
    chunks = list(readers.iter_tables(parquet, rows=1))
    assert [(t.first_row, t.columns["n"].tolist(), t.columns["s"].tolist()) for t in chunks] == [
        (1, [1], ["a"]),
        (2, [2], [None]),
    ]
    with pytest.raises(InputError, match="query gives no records"):
        list(readers.iter_tables(f"SELECT * FROM '{parquet}' WHERE n > 5"))


def test_a_parquet_file_is_encoded_like_the_csv(write, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    csv_file = write("x,y\n" + "".join(f"{k % 12}.5,{k % 2}\n" for k in range(300)))
    parquet = tmp_path / "t.parquet"
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{csv_file}')) TO '{parquet}' (FORMAT parquet)")
    one, two = data.encode(SCHEMA, csv_file), data.encode(SCHEMA, parquet)
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.y, two.y)
    three = data.encode(SCHEMA, f"SELECT * FROM '{parquet}'")
    np.testing.assert_array_equal(one.X, three.X)


def test_a_parquet_file_is_the_same_at_once_and_piece_by_piece(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "COPY (SELECT * FROM (VALUES (9007199254740993, 1.5::FLOAT, 'a', TRUE, 3, "
        "TIMESTAMP '2020-01-02 03:04:05.5'), (9007199254740992, NULL, NULL, NULL, NULL, NULL)) "
        f"t(id, x, s, b, k, seen)) TO '{path}' (FORMAT parquet)"
    )
    readings = []
    for most in (duck.WHOLE_CELLS, 0):
        monkeypatch.setattr(duck, "WHOLE_CELLS", most)
        tables = list(readers.iter_tables(path, rows=1))
        assert [(len(table), table.first_row) for table in tables] == [(1, 1), (1, 2)]
        readings.append(
            {
                name: [words_of(table.columns[name])[0] for table in tables]
                for name in tables[0].columns
            }
        )
    assert readings[0] == readings[1]
    assert readings[0]["id"] == ["9007199254740993", "9007199254740992"]


def test_texts_of_a_parquet_file_are_those_that_were_written(tmp_path):
    """Read at once, as codes: empty, missing and odd ones, a column without any, odd names."""
    duckdb = pytest.importorskip("duckdb")
    cells = ["b", "", None, 'it\'s "so"', "\u00e9, \u6f22", " b ", "b", "1.0"]
    names = ['a "b"', "SELECT", "none", "n"]
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        kinds = ("VARCHAR", "VARCHAR", "VARCHAR", "DOUBLE")
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        declared = ", ".join(f"{a} {b}" for a, b in zip(quoted, kinds, strict=True))
        connection.execute(f"CREATE TABLE t ({declared})")
        rows = [(cell, f"u{k}", None, k) for k, cell in enumerate(cells)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    (table,) = readers.iter_tables(path, rows=None)
    assert list(table.columns) == names
    assert list(table.columns[names[0]]) == [cell or "" for cell in cells]
    assert list(table.columns["SELECT"]) == [f"u{k}" for k in range(len(cells))]
    assert set(table.columns["none"]) == {""}
    np.testing.assert_array_equal(table.columns["n"], np.arange(len(cells)))
    (part,) = readers.iter_tables(path, names=["n", names[0]], only=np.array([1, 3]))
    assert list(part.columns) == [names[0], "n"] and list(part.columns["n"]) == [1.0, 3.0]
    assert list(part.columns[names[0]]) == ["", cells[3]]


def test_without_duckdb_csv_works_and_parquet_names_the_extra(write, monkeypatch):
    real_find, real_import = importlib.util.find_spec, builtins.__import__
    monkeypatch.setattr(
        "tacenda.data.duck.find_spec", lambda name: None if name == "duckdb" else real_find(name)
    )

    def no_duckdb(name, *rest, **named):
        if name.startswith("duckdb"):
            raise ImportError(name)
        return real_import(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", no_duckdb)
    assert cells(data.read_table(write(CSV))) == EXPECTED
    with pytest.raises(InputError, match=r"needs DuckDB.*pip install 'tacenda\[data\]'"):
        data.read_table(write(b"PAR1", "t.parquet"))


def test_a_folder_and_files_of_other_programs_are_named_for_what_they_are(tmp_path):
    (tmp_path / "year").mkdir()
    with pytest.raises(InputError, match="'.*year' is a folder, and holds no file"):
        data.read_table(tmp_path / "year")
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        (tmp_path / "year" / name).write_text("x")
    words = r"is a folder \(it holds a.csv, b.csv, c.csv, ...\); name one file in it"
    with pytest.raises(InputError, match=words):
        data.read_table(tmp_path / "year")
    for name, start, words in (
        ("pay.xlsx", b"PK\x03\x04..", "workbook; save the sheet as CSV"),
        ("pay.csv", b"PK\x03\x04..", "workbook or ZIP archive; save the sheet as CSV"),
        ("pay.xls", b"\xd0\xcf\x11\xe0", "workbook; save the sheet as CSV"),
        ("pay.json", b"[]", r"JSON file; give the query \"SELECT \* FROM '.*pay.json'\""),
        ("pay.zip", b"PK\x03\x04", "ZIP archive; unpack it"),
        ("pay.sav", b"$FL2", "another program; export it as CSV or Parquet"),
        ("pay.dat", b"PAR1", "Parquet file; rename it"),
    ):
        (tmp_path / name).write_bytes(start)
        with pytest.raises(InputError, match=f"{name} must be a CSV or Parquet file.*{words}"):
            data.read_table(tmp_path / name)
