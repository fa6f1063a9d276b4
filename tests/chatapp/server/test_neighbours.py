"""Processes on one SQLite database notice each other."""

import pytest
from django.db import connection

from chatapp.server.neighbours import Neighbours

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(
        connection.vendor != "sqlite", reason="Other databases have a channel layer."
    ),
]


def test_a_process_is_alone_until_another_one_comes_and_after_it_has_gone() -> None:
    first, second = Neighbours(), Neighbours()
    assert first.is_alone()
    assert not second.is_alone()
    assert not first.is_alone()
    second.close()
    assert first.is_alone()
    first.close()


def test_a_process_that_stays_behind_is_alone() -> None:
    first, second, third = Neighbours(), Neighbours(), Neighbours()
    assert first.is_alone()
    assert not any(each.is_alone() for each in (second, third))
    first.close()
    assert not second.is_alone()
    third.close()
    assert second.is_alone()
    second.close()
