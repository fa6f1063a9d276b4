"""Rendering gets values: no module of it asks the database."""

import ast
from pathlib import Path

import pytest

import chatapp.rendering

ROOM = Path(chatapp.rendering.__file__).parent
QUERIES = {"objects", "filter", "exclude", "exists", "values_list", "select_related", "aggregate"}


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: path.name)
def test_a_module_makes_no_query(path: Path) -> None:
    tree = ast.walk(ast.parse(path.read_text()))
    used = {node.attr for node in tree if isinstance(node, ast.Attribute)}
    assert used.isdisjoint(QUERIES)
