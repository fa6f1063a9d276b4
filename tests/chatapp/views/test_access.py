"""What every page of the chat does: it leads to the sign-in page and back, and contains nothing
that a browser may keep or run. `tests/test_routes.py` shows who may open which address."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from chatapp.models import Member, ToolCall
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows

GETS = ["/", "/c/{c}/", "/sidebar/", "/approvals/", "/approvals/{a}/"]
POSTS = [
    "/c/new/messages",
    "/c/{c}/messages",
    "/c/{c}/stop",
    "/approvals/{a}/decide",
    "/approvals/{a}/resolve",
]
HTMX = {"HX-Request": "true"}
TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))


@pytest.fixture
def call(owner: Member) -> ToolCall:
    return rows.question(rows.turn(owner))


@pytest.fixture
def address(call: ToolCall) -> Callable[[str], str]:
    return lambda url: url.format(c=call.turn.conversation_id, a=call.pk)


@pytest.mark.parametrize("url", GETS)
def test_a_signed_out_person_is_shown_the_door_and_comes_back(
    client: Client, address: Callable[[str], str], url: str
) -> None:
    answer = client.get(address(url))
    assert (answer.status_code, answer["Location"]) == (302, f"/sign-in/?next={address(url)}")


def test_a_page_that_was_signed_out_goes_to_the_door_as_a_whole(
    client: Client, address: Callable[[str], str]
) -> None:
    page = {**HTMX, "HX-Current-URL": f"http://testserver{address('/c/{c}/')}"}
    for url in ("/sidebar/", *POSTS):
        method = client.get if url == "/sidebar/" else client.post
        answer = method(address(url), headers=page)
        assert answer["HX-Redirect"] == f"/sign-in/?next={address('/c/{c}/')}"


@pytest.mark.parametrize("url", GETS)
def test_no_page_is_kept_by_a_cache_or_runs_what_is_not_ours(
    owner_client: Client, address: Callable[[str], str], url: str
) -> None:
    answer = owner_client.get(address(url))
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    policy = answer["Content-Security-Policy"]
    assert "script-src 'self'" in policy and "style-src 'self'" in policy
    assert "unsafe" not in policy


def test_a_page_gives_htmx_the_token_that_its_posts_need(
    owner: Member, address: Callable[[str], str]
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    body = parse(client.get(address("/c/{c}/")).content.decode()).one("body")
    token = re.search(r'"X-CSRFToken": "(\w+)"', body["hx-headers:inherited"])
    assert token is not None
    headers = {**HTMX, "X-CSRFToken": token[1]}
    assert client.post(address("/c/{c}/stop"), headers=headers).status_code == 204


def test_a_member_who_was_switched_off_is_out_at_once(
    owner: Member, address: Callable[[str], str]
) -> None:
    client = signed_in(owner)
    Member.objects.filter(pk=owner.pk).update(is_active=False)
    assert client.get(address("/c/{c}/")).status_code == 302


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_needs_inline_code(template: Path) -> None:
    """What the content policy would block, and what htmx would evaluate."""
    text = template.read_text()
    assert not re.search(r"\sstyle=|\son\w+=|hx-on|js:|javascript:|hx-trigger=\"[^\"]*\[", text)
    # Data for a script is no script.
    tags = [tag for tag in re.findall(r"<script\b[^>]*>", text) if "application/json" not in tag]
    assert all("src=" in tag for tag in tags)
    assert "<style" not in text
