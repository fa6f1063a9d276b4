"""What can be wrong with a translation, and with how our sources name their messages."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from babel.messages.catalog import Catalog, Message

from .catalogs import is_translated
from .sources import FUNCTIONS, get_function_name, is_literal, list_calls

# `%(name)s`, `%s`, `%%` and `{name}`. A percent sign before a space is text.
PLACEHOLDER = re.compile(r"%\(\w+\)[\d.]*[a-zA-Z]|%[\d.]*[sdifrx]\b|%%|\{\w*\}")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
OUTER_SPACE = re.compile(r"\A\s*|\s*\Z")

# Functions that translate at once, and so must not run when a module is imported.
EAGER = {"gettext", "ngettext", "pgettext", "npgettext"}
# Nodes whose bodies run later than their module.
LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def list_marks(text: str) -> Counter[str]:
    """Return what a translation keeps of its source: placeholders, tags and space at the ends."""
    return Counter([*PLACEHOLDER.findall(text), *TAG.findall(text), *OUTER_SPACE.findall(text)])


def list_forms(text: object) -> list[str]:
    """Return the forms of an id or of a translation; one if it has no plural."""
    return [str(form or "") for form in (text if isinstance(text, list | tuple) else [text])]


def find_translation_faults(message: Message, plurals: int) -> Iterator[str]:
    """Yield what is wrong with the translation of a message, if it has one.

    The last form is for many things and keeps the marks of the plural. Another may be for exactly
    one thing, whose number need not be written.
    """
    sources, forms = list_forms(message.id), list_forms(message.string)
    if not any(forms):
        return
    if len(forms) != (plurals if message.pluralizable else 1) or not all(forms):
        yield f"{sources[0]!r} has not all its plural forms"
        return
    for form in forms:
        allowed = sources[-1:] if form is forms[-1] else sources
        if list_marks(form) not in [list_marks(source) for source in allowed]:
            yield f"{form!r} has other placeholders, tags or outer spaces than {allowed[-1]!r}"


def find_catalog_faults(catalog: Catalog) -> list[str]:
    """Return what is wrong with the translations of a language."""
    return [
        fault
        for message in catalog
        if message.id
        for fault in find_translation_faults(message, catalog.num_plurals)
    ]


def find_missing(catalog: Catalog) -> list[str]:
    """Return the messages that have no translation, or one that nobody confirmed."""
    return [
        list_forms(message.id)[0]
        for message in catalog
        if message.id and not is_translated(message)
    ]


def read_bindings(tree: ast.Module) -> dict[str, str]:
    """Return the names under which a module imports functions of gettext, with the functions."""
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
        if alias.name in FUNCTIONS
    }


def list_calls_at_import(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that run when the module is imported, defaults and decorators included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child
        if isinstance(child, LATER):
            arguments = child.args
            for early in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
                yield from list_calls_at_import(ast.Expression(early))
            for decorator in getattr(child, "decorator_list", []):
                yield from list_calls_at_import(ast.Expression(decorator))
        else:
            yield from list_calls_at_import(child)


def find_source_faults(source: str) -> list[str]:
    """Return the calls of gettext in a Python file whose messages would not be found, or would stay
    in the language of the moment in which the module was imported."""
    tree = ast.parse(source)
    bindings = read_bindings(tree)
    unknown = [name for name in bindings if name not in FUNCTIONS]
    computed = [call for call in list_calls(source) if not is_literal(call)]
    early = [
        call
        for call in list_calls_at_import(tree)
        if bindings.get(get_function_name(call)) in EAGER
    ]
    return [
        *(f"imports gettext under the unknown name {name}" for name in unknown),
        *(f"line {call.lineno}: the message is no plain string" for call in computed),
        *(f"line {call.lineno}: translated when the module is imported" for call in early),
    ]
