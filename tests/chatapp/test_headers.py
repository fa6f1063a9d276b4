"""The headers that every answer carries, whoever asks and whatever comes of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from pytest_django import Settings

from chatapp.middleware import UNUSED_FEATURES, IsolationHeaders
from chatapp.urls import urlpatterns as project_urls

EXPECTED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("This page breaks for a test.")


def suspicious(request: HttpRequest) -> HttpResponse:
    raise SuspiciousOperation("Not like this.")


def own(request: HttpRequest) -> HttpResponse:
    return HttpResponse("framed", headers={"Cross-Origin-Resource-Policy": "cross-origin"})


urlpatterns = [
    path("broken/", broken),
    path("suspicious/", suspicious),
    path("own/", own),
    *project_urls,
]


def lacking(answer: Any) -> dict[str, Any]:
    """The headers that this answer lacks, with what it has instead."""
    found = {name: answer.headers.get(name) for name in EXPECTED}
    wrong = {name: value for name, value in found.items() if value != EXPECTED[name]}
    if "camera=()" not in answer.headers.get("Permissions-Policy", ""):
        wrong["Permissions-Policy"] = answer.headers.get("Permissions-Policy")
    if "default-src 'none'" not in answer.headers.get("Content-Security-Policy", ""):
        wrong["Content-Security-Policy"] = answer.headers.get("Content-Security-Policy")
    return wrong


@pytest.fixture
def troubled(settings: Settings) -> None:
    """Addresses that break, beside the project's own."""
    settings.ROOT_URLCONF = __name__


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/", 200),
        ("/approvals/", 200),
        ("/password/", 200),
        ("/sidebar/", 200),
        ("/healthz", 200),
        ("/admin/login/", 403),
        ("/nowhere/", 404),
        ("/c/new/messages", 405),
        ("/sign-in/", 302),
        ("/sign-in/no-such-link/", 410),
        ("/broken/", 500),
        ("/suspicious/", 400),
    ],
)
def test_every_answer_is_kept_apart_from_other_sites(
    troubled: None, owner_client: Client, address: str, status: int
) -> None:
    owner_client.raise_request_exception = False
    answer = owner_client.get(address)
    assert (answer.status_code, lacking(answer)) == (status, {})


def test_the_admin_is_too(admin_client: Client) -> None:
    for address in ("/admin/", "/admin/mcpconfig/service/", "/admin/chatapp/member/add/"):
        assert lacking(admin_client.get(address)) == {}


@pytest.mark.django_db
def test_a_forged_post_and_a_strange_host_are_answered_with_them(client: Client) -> None:
    careful = Client(enforce_csrf_checks=True)
    refused = careful.post("/sign-in/", {"username": "a", "password": "b"})
    assert (refused.status_code, lacking(refused)) == (403, {})
    strange = client.get("/", headers={"host": "evil.example"})
    assert (strange.status_code, lacking(strange)) == (400, {})


@pytest.mark.django_db  # a connection of an earlier test is looked after
def test_static_files_have_them_and_are_for_no_other_site(
    client: Client, tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "css").mkdir()
    (tmp_path / "css" / "some.css").write_text("p { color: red }")
    settings.STATIC_ROOT = tmp_path
    answer = client.get("/static/css/some.css")
    assert (answer.status_code, lacking(answer)) == (200, {})
    assert "Access-Control-Allow-Origin" not in answer.headers
    missing = client.get("/static/css/none.css")
    assert (missing.status_code, lacking(missing)) == (404, {})


@pytest.mark.django_db(transaction=True)
async def test_answers_over_asgi_have_them() -> None:
    async with asyncio.timeout(60):
        assert lacking(await AsyncClient().get("/sign-in/")) == {}
        assert lacking(await AsyncClient().get("/nowhere/")) == {}


@pytest.mark.django_db
def test_a_view_may_say_something_else_for_itself(troubled: None, client: Client) -> None:
    assert client.get("/own/").headers["Cross-Origin-Resource-Policy"] == "cross-origin"


def test_no_page_may_use_what_no_page_needs() -> None:
    policy = IsolationHeaders.HEADERS["Permissions-Policy"]
    assert {"camera", "microphone", "geolocation", "usb", "payment"} <= set(UNUSED_FEATURES)
    assert policy.split(", ") == [f"{feature}=()" for feature in UNUSED_FEATURES]
    # The copy buttons write to the clipboard.
    assert "clipboard-write" not in policy
    scripts = "".join(path.read_text() for path in Path("static/js").rglob("*.js"))
    assert "clipboard.write(" in scripts and "clipboard.read" not in scripts


def test_nothing_comes_before_them() -> None:
    assert project.MIDDLEWARE[0] == "chatapp.middleware.IsolationHeaders"
