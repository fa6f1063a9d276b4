"""The numbers that the code keeps (CONTRIBUTING.md names them): sizes, nesting, imports, weight."""

import ast
import io
import tokenize
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import quantiles

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("chatapp", "mcpconfig")

FILE_LINES = 300
FILE_LINES_WITH_REASON = 400
FUNCTION_LINES = 40
NINE_IN_TEN_FUNCTION_LINES = 22
NESTING = 3
TEMPLATE_LINES = 120
SCRIPT_BYTES = 10 * 1024
# Only for who may use a service with apps, and only on a conversation's page.
LAZY_SCRIPT_BYTES = {"static/js/app_frame.js": 6 * 1024}
TEST_LINES_PER_LINE = 1.2

# Files over FILE_LINES and why they are not split.
LONG_FILES: dict[str, str] = {}
# Files that import inside a function and why they must.
LATE_IMPORTS = {
    "chatapp/apps.py": "Django forbids models before its applications are ready",
    "mcpconfig/apps.py": "the same",
}
# What each outside thing is known to: files, or folders that end in a slash.
KNOWN_TO = {
    "anthropic": ["chatapp/providers/anthropic_client.py"],
    "boto3": ["chatapp/providers/bedrock_client.py"],
    "botocore": ["chatapp/providers/bedrock_client.py"],
    "google": ["chatapp/providers/google_client.py"],
    "openai": ["chatapp/providers/openai_client.py"],
    "mcp": ["mcpconfig/", "chatapp/demo/notebook.py", "chatapp/faces/mcp_server.py"],
    "httpx2": [
        *("mcpconfig/", "chatapp/providers/connections.py"),
        *("chatapp/providers/anthropic_client.py", "chatapp/providers/google_client.py"),
    ],
    "redis": [],
    "jsonschema": ["mcpconfig/arguments.py"],
    "nh3": ["chatapp/rendering/sanitiser.py"],
    "pypdf": ["chatapp/files/pdf_child.py"],
    "pygments": ["chatapp/rendering/code_colours.py"],
    "math_core": ["chatapp/rendering/formulas.py"],
    "markdown_it": ["chatapp/rendering/"],
    "cryptography": ["mcpconfig/secrets.py", "chatapp/settings.py", "chatapp/checks.py"],
    "rfc8785": ["chatapp/permissions/binding.py", "mcpconfig/"],
    "uritemplate": ["mcpconfig/uri_templates.py"],
    "uvicorn": ["chatapp/serving.py", "chatapp/demo/listener.py"],
}

BLOCKS = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
    *(ast.Try, ast.TryStar, ast.Match),
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {
    *(tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING, tokenize.COMMENT),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    left_out = {"migrations", "environments", "node_modules"}
    return sorted(path for path in found if not left_out & set(path.parts))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def code_lines(path: Path) -> frozenset[int]:
    """The numbers of the lines that hold code: no blanks, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and ast.get_docstring(node):
            first = node.body[0]
            lines.difference_update(range(first.lineno, (first.end_lineno or 0) + 1))
    return frozenset(lines)


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(parsed(path)) if isinstance(node, FUNCTIONS)]


def length(path: Path, function: Function) -> int:
    return sum(
        1 for line in code_lines(path) if function.lineno <= line <= (function.end_lineno or 0)
    )


def depth(node: ast.AST) -> int:
    """How many blocks lie inside one another below `node`; an `elif` is as deep as its `if`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        own = isinstance(child, BLOCKS) and not is_elif
        deepest = max(deepest, depth(child) + own)
    return deepest


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name."""
    found = {}
    for path in sources(*OURS):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, node: ast.Import | ast.ImportFrom) -> list[tuple[str, ...]]:
    """For each name that is imported: the dotted names it may have, most exact first."""
    if isinstance(node, ast.Import):
        return [(alias.name,) for alias in node.names]
    base = node.module or ""
    if node.level:
        is_package = path.name == "__init__.py"
        parents = module.split(".")
        kept = parents[: len(parents) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    return [(f"{base}.{alias.name}", base) for alias in node.names]


def graph() -> dict[str, set[str]]:
    """Which of our modules imports which as it loads."""
    known = modules()
    edges: dict[str, set[str]] = {module: set() for module in known}
    for module, path in known.items():
        for node in parsed(path).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for names in imported(module, path, node):
                    reached = [found for found in names if found in known]
                    edges[module].update(reached[:1])
        edges[module].discard(module)
    return edges


def test_files_are_short() -> None:
    texts = {path: path.read_text() for path in sources(*OURS, "tests")}
    # Counting the lines of code is slow, and a file has no more of them than lines.
    suspects = [path for path, text in texts.items() if text.count("\n") > FILE_LINES]
    sizes = {name(path): len(code_lines(path)) for path in suspects}
    long = {file: size for file, size in sizes.items() if size > FILE_LINES}
    assert set(long) == set(LONG_FILES)
    assert all(size <= FILE_LINES_WITH_REASON for size in long.values()), long


def test_functions_are_short() -> None:
    sizes = {
        f"{name(path)}:{function.lineno} {function.name}": length(path, function)
        for path in sources(*OURS)
        for function in functions(path)
    }
    assert {where: size for where, size in sizes.items() if size > FUNCTION_LINES} == {}
    assert quantiles(sizes.values(), n=10)[-1] <= NINE_IN_TEN_FUNCTION_LINES


def test_blocks_are_not_nested_deeply() -> None:
    deep = {
        f"{name(path)}:{function.lineno} {function.name}": depth(function)
        for path in sources(*OURS)
        for function in functions(path)
    }
    assert {where: found for where, found in deep.items() if found > NESTING} == {}


def test_imports_have_no_cycle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_import_graph_sees_relative_and_package_imports() -> None:
    found = graph()
    assert "chatapp.models.member" in found["chatapp.models.conversation"]
    assert "chatapp.models" in found["chatapp.links"]
    assert "chatapp.admin.turns" in found["chatapp.admin"]
    with pytest.raises(CycleError):
        TopologicalSorter({**found, "chatapp.models.member": {"chatapp.links"}}).prepare()


def test_imports_are_at_the_top() -> None:
    late = {
        name(path)
        for path in sources(*OURS)
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert late == set(LATE_IMPORTS)


def test_each_outside_thing_is_known_where_it_is_wrapped() -> None:
    strangers = []
    for module, path in modules().items():
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for package in {names[0].split(".")[0] for names in imported(module, path, node)}:
                allowed = tuple(KNOWN_TO.get(package, [name(path)]))
                if not name(path).startswith(allowed or ("nowhere",)):
                    strangers.append(f"{name(path)} imports {package}")
    assert strangers == []


def test_templates_are_short() -> None:
    sizes = {
        name(path): len(path.read_text().splitlines())
        for path in (ROOT / "templates").rglob("*.html")
    }
    assert sizes
    assert {file: size for file, size in sizes.items() if size > TEMPLATE_LINES} == {}


def test_templates_hold_no_script_style_or_handler() -> None:
    """The content policy would block them, silently for everybody but a reader of the console."""
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        for forbidden in (" style=", "<style", " onclick=", "hx-on", "javascript:", "hx-vals='js:"):
            assert forbidden not in text, f"{name(path)} has {forbidden}"


def test_our_scripts_are_light() -> None:
    sizes = {name(path): path.stat().st_size for path in (ROOT / "static/js").glob("*.js")}
    for lazy, most in LAZY_SCRIPT_BYTES.items():
        assert sizes.pop(lazy) <= most
    assert sizes
    assert sum(sizes.values()) <= SCRIPT_BYTES, sizes


def test_there_is_more_test_than_code() -> None:
    code = sum(len(code_lines(path)) for path in sources(*OURS))
    tests = sum(len(code_lines(path)) for path in sources("tests"))
    assert tests >= TEST_LINES_PER_LINE * code, f"{tests} lines of tests for {code} of code"


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("def f():\n  return 1", 0),
        ("def f():\n  if a:\n    b\n  elif c:\n    d\n  elif e:\n    g", 1),
        (
            "def f():\n  for a in b:\n    with c:\n      try:\n        d\n      finally: e",
            3,
        ),
        ("def f():\n  if a:\n    b\n  else:\n    c\n    if d:\n      e", 2),
    ],
)
def test_nesting_is_counted_as_a_reader_would(text: str, deep: int) -> None:
    assert depth(ast.parse(text).body[0]) == deep
