"""The middleware around every view."""

import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from chatapp.middleware import ReleaseConnection


@pytest.mark.django_db(transaction=True)
def test_the_connection_is_free_before_the_answer_is_sent() -> None:
    def view(_request: HttpRequest) -> HttpResponse:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert connection.connection is not None
        return HttpResponse()

    ReleaseConnection(view)(RequestFactory().get("/"))
    assert connection.connection is None
