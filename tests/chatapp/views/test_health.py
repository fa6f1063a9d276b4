"""Probes: alive needs nothing, ready needs the database and the channel layer."""

from typing import Any

import pytest
from django.db import connections
from django.test import Client

from chatapp.models import WriteProbe
from chatapp.server.runtime import current_runtime

NOWHERE = "127.0.0.1:9"


@pytest.fixture(autouse=True)
def _probe_again() -> None:
    """The probe writes at most once a second."""
    current_runtime().written_at = float("-inf")


def test_alive_answers_without_touching_the_database(client: Client) -> None:
    response = client.get("/healthz")
    assert response.status_code == 200
    assert response.content == b"alive\n"
    assert "no-store" in response["Cache-Control"]


@pytest.mark.django_db
def test_ready_when_database_and_layer_answer(client: Client) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert response.content == b"ready\n"


@pytest.mark.django_db
def test_the_probe_writes_one_row_at_most_once_a_second(client: Client) -> None:
    for _ in range(3):
        client.get("/readyz")
    row = WriteProbe.objects.get()
    client.get("/readyz")
    assert WriteProbe.objects.get().written_at == row.written_at
    current_runtime().written_at = float("-inf")
    client.get("/readyz")
    assert WriteProbe.objects.get().written_at > row.written_at


@pytest.mark.django_db(transaction=True)
def test_a_silent_database_is_named(client: Client, settings: Any) -> None:
    connection = connections["default"]
    connection.close()
    kept = connection.settings_dict["NAME"]
    connection.settings_dict["NAME"] = "/nowhere/at/all.sqlite3"
    try:
        response = client.get("/readyz")
    finally:
        connection.close()
        connection.settings_dict["NAME"] = kept
    assert response.status_code == 503
    assert response.content == b"The database does not answer.\n"


@pytest.mark.django_db
def test_without_a_layer_the_database_alone_decides(client: Client, settings: Any) -> None:
    settings.CHANNEL_LAYERS = {}
    assert client.get("/readyz").content == b"ready\n"


SILENT = {
    "channels_redis.pubsub.RedisPubSubChannelLayer": {"hosts": [f"redis://{NOWHERE}"]},
    "chatapp.server.postgresql.channel_layer.NotifyChannelLayer": {
        "database": {"NAME": "nothing", "HOST": "127.0.0.1", "PORT": 9}
    },
}


@pytest.mark.django_db
@pytest.mark.parametrize("backend", SILENT)
def test_a_silent_layer_is_named(client: Client, settings: Any, backend: str) -> None:
    layer = {"BACKEND": backend, "CONFIG": SILENT[backend]}
    settings.CHANNEL_LAYERS = {"default": layer}
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.content == b"The channel layer does not answer.\n"
