"""The page of threats: its names, its tests, and no other list of threats beside it."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("chatapp", "mcpconfig", "templates", "tests", "docs", "benchmarks")
LEFT_OUT = {"environments", "node_modules", "__pycache__", "vendor"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)

# What a reference to a numbered list outside of the project looks like: in prose, as a value, and
# at the beginning of the name of a test.
# F2 is a key.
CODE = re.compile(r"\b(?!F2\b)[ABFKP]\d{1,2}\b|\bDESIGN\b|\b[Pp]romises? \d")
CODE_AS_VALUE = re.compile(r"(?!F2)[ABFK]\d{1,2}")
CODE_IN_NAME = re.compile(r"test_[abfk]\d{1,2}_\w+")
TEMPLATE_COMMENT = re.compile(r"\{#.*?#\}|\{% comment.*?endcomment %\}|<!--.*?-->", re.DOTALL)

MARKER = re.compile(r"\bthreats?: ((?:`[a-z0-9-]+`(?:, | and )?)+)", re.IGNORECASE)
KEYWORD = "threat"


def rows() -> list[tuple[str, str]]:
    """The name of each threat, and the last cell of its row."""
    page = (ROOT / "docs/threats.md").read_text()
    return re.findall(r"^\| `([^`|]+)` \|(?:[^|]+\|){2} ([^|]+) \|$", page, re.MULTILINE)


def files(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            is_ours = not LEFT_OUT & set(path.relative_to(ROOT).parts)
            if is_ours and path.suffix in suffixes and path.is_file():
                yield path


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def prose(source: str) -> Iterator[str]:
    """The comments and docstrings of a Python module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def codes_in_python(source: str) -> set[str]:
    found = {code for text in prose(source) for code in CODE.findall(text)}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(value)) if CODE_AS_VALUE.fullmatch(value):
                found.add(value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found |= {name} if CODE_IN_NAME.fullmatch(name) else set()
    return found


def codes_in(name: str, text: str) -> set[str]:
    """The references to a list outside of the project in a file of this name."""
    if name.endswith(".py"):
        # Few files contain anything similar, and reading tokens takes long.
        is_similar = CODE.search(text) or CODE_IN_NAME.search(text)
        return codes_in_python(text) if is_similar else set()
    if name.endswith(".md"):
        return set(CODE.findall(text))
    return {code for comment in TEMPLATE_COMMENT.findall(text) for code in CODE.findall(comment)}


def names_used(path: Path) -> Iterator[str]:
    """The names of threats that a test file uses: as a keyword, as a marker, or in a table."""
    text = path.read_text()
    if path.name == "hostile_table.py":
        tables = re.findall(r'= """\n(.*?)\n"""', text, re.DOTALL)
        yield from (line.split()[-1] for table in tables for line in table.splitlines())
    if "threat" not in text.lower():
        return
    for node in ast.walk(parse(path)):
        match node:
            case ast.keyword(arg=arg, value=ast.Constant(value=str(value))) if arg == KEYWORD:
                yield value
    for each in prose(text):
        for marked in MARKER.findall(each):
            yield from re.findall(r"`([^`]+)`", marked)


def test_each_threat_has_a_name_of_its_own() -> None:
    names = [name for name, _ in rows()]
    assert len(names) > 150
    assert {name for name in names if names.count(name) > 1} == set()
    assert {name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)} == set()
    page = (ROOT / "docs/threats.md").read_text()
    assert page.count("\n| `") == len(names), "each row can be read"


def test_each_threat_names_a_test_or_says_what_is_missing() -> None:
    for name, shown_by in rows():
        is_open = re.fullmatch(r"open: .{10,}", shown_by)
        assert is_open or re.fullmatch(r"`test_\w+`(, `test_\w+`)*", shown_by), name


def test_each_named_test_exists() -> None:
    tests = {
        node.name
        for path in files("tests")
        if path.name.startswith("test_")
        for node in ast.walk(parse(path))
        if isinstance(node, FUNCTIONS)
    }
    named = {
        (name, test) for name, shown_by in rows() for test in re.findall(r"test_\w+", shown_by)
    }
    assert {(name, test) for name, test in named if test not in tests} == set()


def test_tests_use_only_names_of_the_page() -> None:
    known = {name for name, _ in rows()}
    used = {(path.name, name) for path in files("tests") for name in names_used(path)}
    assert len(used) > 25
    assert {each for each in used if each[1] not in known} == set()


def test_no_file_refers_to_a_list_outside_of_the_project() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {code}"
        for path in files(*FOLDERS, suffixes=(".py", ".md", ".html", ".txt"))
        if path != Path(__file__).resolve()
        for code in codes_in(path.name, path.read_text())
    }
    assert found == set()


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.py", '"""Stop a replay (A32)."""\n', "A32"),
        ("a.py", "def stop():\n    '''F9: the feed repairs itself.'''\n", "F9"),
        ("a.py", "x = 1  # the worker dies at K3\n", "K3"),
        ("a.py", "x = 1  # see DESIGN.md\n", "DESIGN"),
        ("a.py", "# which promise 2 needs\n", "promise 2"),
        ("a.py", "attack(threat='A27')  # it fails\n", "A27"),
        ("a.py", "def test_a49_a_state_is_good_once(): ...\n", "test_a49_a_state_is_good_once"),
        ("a.md", "Stopped, see A22.\n", "A22"),
        ("a.html", "<p>{# B4: escaped #}</p>\n", "B4"),
    ],
)
def test_a_planted_reference_is_found(name: str, text: str, code: str) -> None:
    assert codes_in(name, text) == {code}


def test_similar_text_is_no_reference() -> None:
    for name, text in (
        ("a.py", 'color = "#A1B2C3"  # a0B1\n'),
        ("a.py", 'font = b"/F1 12 Tf"\naddress = "%C3%A9"\n'),
        ("a.html", '<path d="M2 2h9A2 2 0 0 1 4 4" />\n'),
    ):
        assert codes_in(name, text) == set()
