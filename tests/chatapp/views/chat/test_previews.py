"""HTML and SVG of answers as pages: who gets them, and with which policy."""

import pytest
from django.test import Client

from chatapp.models import Member, Part, Turn
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
PAGE = "<script>document.title = 'é'</script>"
TEXT = f"```html\n{PAGE}\n```\n\n```SVG\n<svg><circle r='4'/></svg>\n```\n\n```python\nx = 1\n```\n"
IN_FRAME = {"Sec-Fetch-Dest": "iframe"}


@pytest.fixture
def part(owner: Member) -> Part:
    return rows.said(rows.turn(owner, Turn.State.DONE), TEXT)


def address(part: Part, view: str, number: int = 0) -> str:
    place = f"/messages/{part.message_id}/figures/{part.step}/{part.position}/{number}"
    return f"{place}/{view}"


def test_only_html_and_svg_have_a_preview(owner_client: Client, part: Part) -> None:
    page = owner_client.get(f"/c/{part.message.conversation_id}/").content.decode()
    assert [f'href="{address(part, "preview", number)}"' in page for number in range(3)] == [
        True,
        True,
        False,
    ]
    for view in ("preview", "page"):
        assert owner_client.get(address(part, view, 2)).status_code == 404
        assert owner_client.get(address(part, view, 3)).status_code == 404


def test_the_page_has_no_origin_and_reaches_no_host(owner_client: Client, part: Part) -> None:
    answer = owner_client.get(address(part, "page"), headers=IN_FRAME)
    assert "document.title = 'é'" in answer.content.decode()
    policy = dict(
        rule.partition(" ")[::2] for rule in answer["Content-Security-Policy"].split("; ")
    )
    assert policy["sandbox"] == "allow-scripts"
    assert policy["default-src"] == policy["connect-src"] == policy["form-action"] == "'none'"
    assert policy["frame-ancestors"] == "'self'"
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
    assert answer["Referrer-Policy"] == "no-referrer"


def test_opened_directly_the_page_leads_to_its_frame(owner_client: Client, part: Part) -> None:
    """A page of its own could lead the browser to another host, with the chat in the address."""
    answer = owner_client.get(address(part, "page"), headers={"Sec-Fetch-Dest": "document"})
    assert (answer.status_code, answer["Location"]) == (302, address(part, "preview"))
    shown = owner_client.get(answer["Location"])
    frame = parse(shown.content.decode()).one("iframe")
    assert frame["src"] == address(part, "page")
    assert frame["sandbox"] == "allow-scripts"
    assert "frame-src 'self'" in shown["Content-Security-Policy"]
    assert "&lt;script&gt;" in shown.content.decode()


def test_svg_stands_in_a_page(owner_client: Client, part: Part) -> None:
    answer = owner_client.get(address(part, "page", 1), headers=IN_FRAME)
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert answer.content.decode().endswith("<svg><circle r='4'/></svg>\n")


def test_nobody_else_sees_it(client: Client, stranger: Member, part: Part) -> None:
    client.force_login(stranger)
    for view in ("preview", "page"):
        assert client.get(address(part, view), headers=IN_FRAME).status_code == 404
