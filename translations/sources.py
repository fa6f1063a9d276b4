"""The messages of our Python files and templates."""

import ast
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent

PYTHON_FOLDERS = ("chatapp", "mcpconfig")
TEMPLATE_FOLDER = "templates"
TEMPLATE_ENDINGS = (".html", ".txt")

# What the arguments of each function are.
SINGULAR = ("id",)
PLURAL = ("id", "plural")
SINGULAR_IN_CONTEXT = ("context", "id")
PLURAL_IN_CONTEXT = ("context", "id", "plural")
FUNCTIONS = {
    "_": SINGULAR,
    "_lazy": SINGULAR,
    "gettext": SINGULAR,
    "gettext_lazy": SINGULAR,
    "gettext_noop": SINGULAR,
    "ngettext": PLURAL,
    "ngettext_lazy": PLURAL,
    "pgettext": SINGULAR_IN_CONTEXT,
    "pgettext_lazy": SINGULAR_IN_CONTEXT,
    "npgettext": PLURAL_IN_CONTEXT,
    "npgettext_lazy": PLURAL_IN_CONTEXT,
}
# The same in Babel's form: numbers from 1, the context marked.
KEYWORDS = {
    function: tuple(
        (place, "c") if argument == "context" else place
        for place, argument in enumerate(arguments, start=1)
    )
    for function, arguments in FUNCTIONS.items()
}


class Found(NamedTuple):
    """A message at a line of a file."""

    line: int
    id: str | tuple[str, str]
    context: str | None


def get_function_name(call: ast.Call) -> str:
    """Return the last part of a called name, such as `gettext` in `translation.gettext(…)`."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def list_calls(source: str) -> list[ast.Call]:
    """Return the calls of gettext in a Python file, in its order."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [call for call in calls if get_function_name(call) in FUNCTIONS]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def is_literal(call: ast.Call) -> bool:
    """Return whether each argument that names a message is a plain string."""
    texts = call.args[: len(FUNCTIONS[get_function_name(call)])]
    return bool(texts) and all(
        isinstance(text, ast.Constant) and isinstance(text.value, str) for text in texts
    )


def read_python_messages(source: str) -> Iterator[Found]:
    """Yield the messages of a Python file.

    Babel's own extractor reads tokens, and before Python 3.12 an f-string is one token: it would
    miss the calls inside of one.
    """
    for call in filter(is_literal, list_calls(source)):
        arguments = FUNCTIONS[get_function_name(call)]
        texts = [str(ast.literal_eval(text)) for text in call.args[: len(arguments)]]
        named = dict(zip(arguments, texts, strict=False))
        both = (named["id"], named["plural"]) if "plural" in named else named["id"]
        yield Found(call.lineno, both, named.get("context"))


def read_template_messages(source: str) -> Iterator[Found]:
    """Yield the messages of a template.

    Django rewrites a template as calls of gettext between words without meaning. The brackets make
    its lines one expression, in which indentation is free.
    """
    calls = f"({templatize(source)}\n)".encode()
    for line, message, _comments, context in extract("python", BytesIO(calls), keywords=KEYWORDS):
        yield Found(
            line, message if isinstance(message, str) else (message[0], message[1]), context
        )


def list_python_files() -> list[Path]:
    return sorted(
        path
        for folder in PYTHON_FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "migrations" not in path.parts
    )


def list_templates() -> list[Path]:
    found = (ROOT / TEMPLATE_FOLDER).rglob("*")
    return sorted(path for path in found if path.suffix in TEMPLATE_ENDINGS)


def extract_messages() -> Catalog:
    """Return a catalog without translations of all messages in our sources."""
    catalog = Catalog()
    readers = [
        (read_python_messages, list_python_files()),
        (read_template_messages, list_templates()),
    ]
    for read, paths in readers:
        for path in paths:
            name = path.relative_to(ROOT).as_posix()
            for found in read(path.read_text()):
                catalog.add(found.id, None, [(name, found.line)], context=found.context)
    return catalog
