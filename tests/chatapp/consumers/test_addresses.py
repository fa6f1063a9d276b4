"""Sockets at addresses that are none: refused, without an exception and without an entry in the
log."""

import logging

import pytest
from asgiref.sync import sync_to_async

from chatapp.models import Member

from .browser_socket import session_of, socket_at

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "//",
        "/ws",
        "/ws/",
        "/ws/c/",
        "/ws/c/not-an-id/",
        "/ws/c/01890f1e-2b7c-7d10-9c1f-6f0a3d2b4c5d",
        "/ws/c/01890f1e-2b7c-7d10-9c1f-6f0a3d2b4c5d/more",
        "/ws/me",
        "/ws/me/more/",
        "/mcp",
        "/demo/mcp",
        "/ws/\n",
        "\n",
        "/ws/me/\n",
        "/../ws/me",
        "/%00",
        "/\x00",
        "/\ud7ff\uffff",
        "/" + "x" * 60_000,
    ],
)
async def test_a_socket_at_an_odd_address_is_refused_quietly(
    owner: Member, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    tab = socket_at(path, await sync_to_async(session_of)(owner))
    with caplog.at_level(logging.INFO):
        assert not await tab.opens()
        await tab.leave()
    assert caplog.records == []
