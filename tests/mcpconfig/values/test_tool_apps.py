"""Apps of tools: which tool has one, how its page is parsed, and what that page may reach."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError

from mcpconfig.models import Exchange, Service
from mcpconfig.models.service import check_origins, parse_origins
from mcpconfig.operations.resources import read_resource
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import ResourceContents, ResourcePart
from mcpconfig.values.tool_apps import (
    MIME_TYPE,
    build_content_policy,
    get_app_uri,
    is_for,
    parse_app_page,
)
from tests.peers.effects import Effects
from tests.peers.gallery import application
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]
URI = "ui://gallery/plain"


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path: Path = tmp_path_factory.mktemp("apps") / "effects"
    pages = {"plain": "<p>Hello", "large": "x" * (LIMITS.resource_bytes // 4)}
    asked = {"connectDomains": ["https://a.example"], "resourceDomains": ["https://b.example/"]}
    with Served(application(Effects(path), pages, **asked)) as served:
        yield served


def contents(text: str | None = "<p>Hello", mime_type: str = MIME_TYPE, **more: Any) -> Any:
    part = ResourcePart(uri=URI, mime_type=mime_type, text=text, **more)
    return ResourceContents(parts=(part,))


@pytest.mark.parametrize(
    ("meta", "uri"),
    [
        ({"ui": {"resourceUri": URI}}, URI),
        ({"ui/resourceUri": URI}, URI),
        ({"ui": {"visibility": ["app"]}}, ""),
        ({"ui": {"resourceUri": "https://evil.example/"}}, ""),
        ({"ui": {"resourceUri": 7}}, ""),
        ({"ui": "ui://x"}, ""),
        ({}, ""),
        (None, ""),
    ],
)
def test_only_what_names_an_app_of_its_service_has_one(meta: Any, uri: str) -> None:
    assert get_app_uri(meta) == uri


@pytest.mark.parametrize(
    ("meta", "model", "app"),
    [
        (None, True, True),
        ({"ui": {"resourceUri": URI}}, True, True),
        ({"ui": {"visibility": ["app"]}}, False, True),
        ({"ui": {"visibility": ["model"]}}, True, False),
        ({"ui": {"visibility": []}}, False, False),
        ({"ui": {"visibility": "app model"}}, False, False),
        ({"ui": {"visibility": {"app": 1}}}, False, False),
    ],
)
def test_a_tool_is_for_whom_its_service_says(meta: Any, model: bool, app: bool) -> None:
    assert (is_for("model", meta), is_for("app", meta)) == (model, app)


def test_an_app_is_taken_in_with_the_origins_that_it_asks_for() -> None:
    csp = {"connectDomains": ["https://A.example/", "wss://b.example:8"], "resourceDomains": None}
    page = parse_app_page(contents(meta={"ui": {"csp": csp}}))
    assert page.html == "<p>Hello"
    assert page.connects == ("https://a.example", "wss://b.example:8")
    assert page.loads == ()
    assert page.hash == parse_app_page(contents()).hash != parse_app_page(contents("<p>Other")).hash


def test_bytes_are_read_as_a_page_too() -> None:
    assert parse_app_page(contents(None, blob=b"<p>Hi")).html == "<p>Hi"


@pytest.mark.parametrize(
    "found",
    [
        contents(mime_type="text/html"),
        contents(""),
        ResourceContents(parts=()),
        ResourceContents(parts=contents().parts, was_cut=True),
    ],
)
def test_what_is_no_whole_app_is_refused_with_a_sentence(found: ResourceContents) -> None:
    with pytest.raises(OperationError) as caught:
        parse_app_page(found)
    assert caught.value.kind == "protocol"
    assert caught.value.message.endswith(".")


def test_a_policy_without_origins_lets_the_app_reach_nothing() -> None:
    directives = dict(each.split(" ", 1) for each in build_content_policy((), (), ()).split("; "))
    assert directives["sandbox"] == "allow-scripts"
    assert directives["default-src"] == directives["connect-src"] == "'none'"
    assert directives["form-action"] == directives["base-uri"] == "'none'"
    assert directives["frame-ancestors"] == "'self'"
    assert directives["script-src"] == "'unsafe-inline'"


def test_an_app_gets_of_what_it_asks_for_only_what_an_admin_allowed() -> None:
    asked, allowed = ("https://a.example", "https://b.example"), {"https://b.example"}
    policy = build_content_policy(asked, asked, allowed | {"https://never-asked.example"})
    assert "connect-src https://b.example;" in policy
    assert "img-src data: blob: https://b.example;" in policy
    assert "a.example" not in policy
    assert "never-asked" not in policy


@pytest.mark.parametrize(
    "origin",
    [
        "https://a.example; script-src *",
        "https://a.example\nX-Evil: 1",
        "*",
        "https://*",
        "'unsafe-eval'",
        "data:",
        "javascript:alert(1)",
        "https://a.example/path",
        "https://a.example https://b.example",
        "https://user@a.example",
    ],
)
def test_nothing_but_an_origin_gets_into_a_policy(origin: str) -> None:
    csp = {"connectDomains": [origin], "resourceDomains": [origin]}
    page = parse_app_page(contents(meta={"ui": {"csp": csp}}))
    assert page.connects == page.loads == ()
    assert build_content_policy((origin,), (origin,), {origin}) == build_content_policy((), (), ())
    with pytest.raises(ValidationError):
        check_origins(origin)


def test_origins_are_read_one_a_line() -> None:
    text = "https://A.example/\n\n  wss://*.b.example:8443 \n"
    check_origins(text)
    assert parse_origins(text) == {"https://a.example", "wss://*.b.example:8443"}


def test_too_many_origins_are_refused() -> None:
    with pytest.raises(ValidationError):
        check_origins("\n".join(f"https://{number}.example" for number in range(51)))


async def test_the_extension_is_declared_only_where_an_admin_allows_apps(
    service_at: MakeService, modern: Served
) -> None:
    silent = await service_at(modern.url)
    speaking = await service_at(modern.url, allows_apps=True)
    for service, is_declared in ((silent, False), (speaking, True)):
        await fetch_tools(service)
        sent = Exchange.objects.filter(service=service, rpc_method="tools/list")
        bodies = [each.request_body async for each in sent]
        assert ["io.modelcontextprotocol/ui" in body for body in bodies] == [is_declared]


async def test_a_page_is_read_whole_with_what_it_asks_for(
    apps: Served, service_at: MakeService
) -> None:
    service = await service_at(apps.url, allows_apps=True)
    page = parse_app_page(await read_resource(service, URI))
    assert page.html == "<p>Hello"
    assert page.connects == ("https://a.example",)
    assert page.loads == ("https://b.example",)
    large = parse_app_page(await read_resource(service, "ui://gallery/large"))
    assert len(large.html) == LIMITS.resource_bytes // 4


async def test_what_a_known_tool_says_to_programs_is_renewed(
    apps: Served, service_at: MakeService
) -> None:
    service = await service_at(apps.url, allows_apps=True)
    tools = {tool.name: tool for tool in await fetch_tools(service)}
    shown = tools["show_plain"]
    assert get_app_uri(shown.meta) == URI
    shown.meta = None
    await sync_to_async(shown.save)()
    again = {tool.name: tool for tool in await fetch_tools(service)}["show_plain"]
    assert (again.pk, get_app_uri(again.meta)) == (shown.pk, URI)
