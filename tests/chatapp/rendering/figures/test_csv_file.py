"""CSV files, and the numbers in their cells."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.rendering.figures.cell_numbers import is_number, read_column
from chatapp.rendering.figures.csv_file import FORMULA_STARTS, guard_cell, write_csv
from chatapp.rendering.figures.values import TableData


def test_a_file_has_the_head_and_all_cells_in_quotes() -> None:
    table = TableData(head=("a", "b"), rows=(("x, y", 'say "hi"'), ("é", "")))
    assert write_csv(table) == '\ufeff"a","b"\r\n"x, y","say ""hi"""\r\n"é",""\r\n'


def test_a_table_of_names_and_values_has_no_head() -> None:
    assert write_csv(TableData(head=(), rows=(("name", "x"),))) == '\ufeff"name","x"\r\n'


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\tx", " =1", "＝1", "--", "-x", "+1 +2"],  # noqa: RUF001
)
def test_a_formula_is_written_as_text(cell: str) -> None:
    assert guard_cell(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["-3", "−3", "+1,234.5", "-1.234,5", "-63 %", "-$12", "a; b-c", ""]
)
def test_a_number_or_plain_text_is_left_as_it_is(cell: str) -> None:
    assert guard_cell(cell) == cell


@given(st.text(max_size=20))
def test_no_cell_begins_with_a_formula(cell: str) -> None:
    guarded = guard_cell(cell)
    assert not guarded.lstrip(" ").startswith(FORMULA_STARTS) or is_number(cell)


@pytest.mark.parametrize(
    ("cell", "guarded"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("x\n=cmd|'/C calc'!A0", "x\n'=cmd|'/C calc'!A0"),
        ("x\r@SUM(A1)", "x\r'@SUM(A1)"),
        ("x\t -1+1", "x\t '-1+1"),
        ('x;"=1', "x;\"'=1"),
        ("\t=1", "'\t'=1"),
        ("x;＝1", "x;'＝1"),  # noqa: RUF001
    ],
)
def test_a_formula_inside_a_cell_is_text_for_programs_that_split_it(
    cell: str, guarded: str
) -> None:
    assert guard_cell(cell) == guarded


@given(st.text("x1;=+-@＝ \"'\t\r\n,", max_size=12), st.sampled_from(";\t"))  # noqa: RUF001
def test_no_formula_begins_where_another_program_splits_a_line(cell: str, mark: str) -> None:
    written = write_csv(TableData(head=("x", cell, "x"), rows=(("x", cell, "x"),)))
    lines = re.split("[\r\n]+", written.removeprefix("\ufeff"))
    # As a program does that ignores quotes, and as one does that knows them.
    pieces = [piece for line in lines for piece in line.split(mark)]
    pieces += [piece for row in csv.reader(lines, delimiter=mark) for piece in row]
    assert not [each for each in pieces if each.lstrip(' "').startswith(tuple("=+-@＝"))]  # noqa: RUF001


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_every_cell_comes_back_from_the_file(cells: list[str]) -> None:
    written = write_csv(TableData(head=("x", *cells), rows=()))
    rows = list(csv.reader(io.StringIO(written.removeprefix("\ufeff"), newline="")))
    assert rows == [["x", *map(guard_cell, cells)]]


# --- numbers -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("12", 12),
        ("-3", -3),
        ("−3", -3),
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("1 234", 1234),
        ("1\u202f234,5", 1234.5),
        ("1'234", 1234),
        ("1,234,567", 1234567),
        ("1.234.567", 1234567),
        (".5", 0.5),
        ("63 %", 63),
        ("$1,200", 1200),
        ("-$5", -5),
        ("$-5", -5),
        ("1.200,50 €", 1200.5),
        ("12 ms", 12),
        ("5 km/h", 5),
        ("2e3", 2000),
    ],
)
def test_a_number_is_read_in_the_style_in_which_it_is_written(cell: str, number: float) -> None:
    column = read_column([cell])
    assert column is not None
    assert column.numbers == (number,)


@pytest.mark.parametrize(
    "cell",
    ["x", "1.2.3", "10.0.0.1", "12:30", "2026-11-28", "1,23,4", "1-2", "1e999", "9" * 400, "$5 €"]
    + ["1_000", "0x10", "1 2 3", "½", "1/2", "5 % of 3"],
)
def test_what_is_no_number_is_not_read_as_one(cell: str) -> None:
    assert read_column([cell]) is None
    assert not is_number(cell)


def test_all_cells_of_a_column_are_read_in_one_style() -> None:
    column = read_column(["1.234", "12,5", "", "n/a"])
    assert column is not None
    assert column.numbers == (1234, 12.5, None, None)
    assert read_column(["1,234.5", "1.234,5"]) is None


def test_the_language_decides_where_both_styles_are_possible() -> None:
    english, german = read_column(["1.234"]), read_column(["1.234"], ",")
    assert english is not None
    assert german is not None
    assert (english.numbers, german.numbers) == ((1.234,), (1234,))


@pytest.mark.parametrize(("cells", "mark"), [(["0.912", "0.887"], ","), (["0,125", "0,5"], ".")])
def test_no_language_reads_a_decimal_below_one_as_thousands(cells: list[str], mark: str) -> None:
    column = read_column(cells, mark)
    assert column is not None
    assert column.numbers == tuple(float(cell.replace(",", ".")) for cell in cells)


def test_numbers_of_different_units_are_no_column() -> None:
    assert read_column(["900 MB", "1.2 GB"]) is None
    column = read_column(["$1", "$2", "–"])
    assert column is not None
    assert (column.unit, column.is_prefix) == ("$", True)


def test_a_column_without_a_number_is_none() -> None:
    assert read_column(["", "-", "NaN", "inf"]) is None
    assert read_column([]) is None


@given(st.lists(st.text(max_size=12) | st.from_regex(r"[-$]?[0-9., ]{1,12}[%e0-9]*"), max_size=4))
def test_any_cells_can_be_read(cells: list[str]) -> None:
    column = read_column(cells)
    assert column is None or len(column.numbers) == len(cells)
