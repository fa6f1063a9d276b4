"""Export in the admin and from the command line: no secret leaves, and what was written can be
imported again."""

import json
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest
from django.test import Client

from chatapp.audit.admin_entries import MOST_NAMES
from chatapp.models import LogEntry, Member
from chatapp.rendering.pages.log import build_line
from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials
from tests.mcp_command import Ran

from .test_import_verb import CANARY, EXPORT, IMPORT, URL, filled, page, preview

pytestmark = pytest.mark.timeout(300)


def test_what_is_exported_has_no_secret_and_can_be_imported_again(
    admin_client: Client, owner: Member
) -> None:
    one = Service.objects.create(name="one", url=URL, authentication="bearer", transport="sse")
    credentials.set_bearer(one, CANARY)
    two = Service.objects.create(
        name="two", url=f"{URL}?token={CANARY}&{CANARY}==#{CANARY}", authentication="headers"
    )
    credentials.set_headers(two, {"X-Key": CANARY})
    Service.objects.create(name="three", url=URL, authentication="oauth_user", client_id="us")
    Service.objects.create(name="off", url=URL, is_enabled=False)
    Service.objects.create(name="inner", url="builtin:notebook")
    Service.objects.create(name="own", url=URL, owner=owner, visibility="private")

    answer = admin_client.get(EXPORT)

    assert answer["Content-Disposition"] == 'attachment; filename="mcp-servers.json"'
    assert CANARY not in answer.content.decode()
    said = answer.json()
    assert Ran("export").json == said
    entries = said["mcpServers"]
    assert list(entries) == ["off", "one", "three", "two"]
    blank = {"Authorization": "Bearer ${input:one-token}"}
    assert entries["one"] == {"type": "sse", "url": URL, "headers": blank}
    assert entries["two"]["headers"] == {"X-Key": "${input:two-X-Key}"}
    assert entries["two"]["url"] == f"{URL}?token=${{input:two-token}}&${{input:two-query}}"
    assert entries["three"] == {"type": "http", "url": URL, "oauth": {"clientId": "us"}}
    assert entries["off"]["disabled"] is True

    Service.objects.all().delete()
    del said["mcpServers"]["two"]
    seen = page(admin_client.post(IMPORT, {"text": json.dumps(said)}))
    fields = filled(seen, **{"value-1-0": CANARY})
    assert admin_client.post(IMPORT, fields).status_code == 302
    found = Service.objects.values_list("name", "transport", "authentication", "is_enabled")
    assert list(found) == [
        ("off", "auto", "none", False),
        ("one", "sse", "bearer", True),
        ("three", "auto", "oauth_user", True),
    ]


def chosen(client: Client, *services: Service) -> Any:
    picked = {"action": "export_chosen", "_selected_action": [each.pk for each in services]}
    return client.post("/admin/mcpconfig/service/", picked)


LOOKED_AT = ("name", "url", "transport", "authentication", "title", "description")


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"authentication": "bearer", "transport": "sse", "known_transport": "sse"}, [CANARY]),
        ({"authentication": "headers", "url": f"{URL}?Y={CANARY}1"}, [f"{CANARY}1", CANARY]),
        ({"authentication": "none", "title": "", "url": f"{URL}?{CANARY}=="}, [f"{CANARY}=="]),
    ],
)
def test_a_server_json_holds_no_secret_and_can_be_imported_again(
    admin_client: Client, fields: dict[str, Any], values: list[str]
) -> None:
    words = {"title": "The one", "description": "Has one thing.", "transport": "streamable-http"}
    one = Service.objects.create(**({"name": "one", "url": URL} | words | fields))
    credentials.set_bearer(one, CANARY)
    credentials.set_headers(one, {"X-Key": CANARY})
    before = [getattr(one, name) for name in LOOKED_AT]

    answer = chosen(admin_client, one)

    assert answer["Content-Disposition"] == 'attachment; filename="server.json"'
    assert CANARY not in answer.content.decode()
    said = answer.json()
    assert Ran("export", "--service", "one").json == said
    assert (said["name"], said["description"]) == ("example.one/one", "Has one thing.")
    assert said["remotes"][0]["type"] == before[2]

    one.delete()
    seen = preview(admin_client, json.dumps(said))
    entered = {f"value-0-{at}": value for at, value in enumerate(values)}
    assert admin_client.post(IMPORT, filled(seen, **entered)).status_code == 302
    again = Service.objects.get()
    assert [getattr(again, name) for name in LOOKED_AT] == before
    if fields["authentication"] != "none":
        sent = credentials.load_request_headers(again, Credential.objects.get())
        assert list(sent.values()) in ([CANARY], [f"Bearer {CANARY}"])


def test_the_log_has_whole_names_of_the_services_and_their_count(admin_client: Client) -> None:
    names = [f"service-{'x' * 40}-{number:02}" for number in range(MOST_NAMES + 5)]
    chosen(admin_client, *(Service.objects.create(name=name, url=URL) for name in names))
    data = json.loads(LogEntry.objects.get(kind=LogEntry.Kind.DOWNLOADED).data)
    assert data["count"] == len(names)
    assert data["services"] == f"{', '.join(names[:MOST_NAMES])}, …"


def test_several_server_json_come_packed_and_what_is_a_persons_own_stays_theirs(
    admin_client: Client, owner: Member
) -> None:
    one, two = (Service.objects.create(name=name, url=URL) for name in ("one", "two"))
    own = Service.objects.create(name="own", url=URL, owner=owner, visibility="private")
    inner = Service.objects.create(name="inner", url="builtin:notebook")
    with ZipFile(BytesIO(chosen(admin_client, one, two, own, inner).content)) as archive:
        assert archive.namelist() == ["one/server.json", "two/server.json"]
        assert json.loads(archive.read("two/server.json"))["remotes"][0]["url"] == URL
    entry = LogEntry.objects.get(kind=LogEntry.Kind.DOWNLOADED)
    assert build_line(entry).said == "one, two (2 in total), without secrets."
    assert chosen(admin_client, own, inner).status_code == 302
    assert "no service “own” to export" in Ran("export", "--service", "own").err
