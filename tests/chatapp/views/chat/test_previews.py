"""HTML, SVG and Mermaid of answers as pages: who gets them, and with which policy."""

import json
from typing import Any

import pytest
from django.test import Client

from chatapp.models import Member, Part, Turn
from chatapp.rendering.figures.diagram_options import MOST_CHARACTERS
from chatapp.views.chat.previews import DIAGRAM_SCRIPTS, DIAGRAM_STYLE
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


@pytest.fixture
def diagram(owner: Member) -> Part:
    text = '```mermaid\nflowchart LR\n  A["<b>\'"] --> B\n```\n'
    return rows.said(rows.turn(owner, Turn.State.DONE), text)


def test_a_diagram_may_load_its_own_files_and_nothing_else(
    owner_client: Client, diagram: Part
) -> None:
    answer = owner_client.get(address(diagram, "page"), headers=IN_FRAME)
    policy = dict(
        rule.partition(" ")[::2] for rule in answer["Content-Security-Policy"].split("; ")
    )
    page = parse(answer.content.decode())
    scripts = [f"http://testserver{each['src']}" for each in page.all("script")]
    assert len(scripts) == 2
    assert policy == {
        "sandbox": "allow-scripts",
        "default-src": "'none'",
        "script-src": " ".join(scripts),
        "style-src": f"'unsafe-inline' http://testserver{page.one('link')['href']}",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'self'",
    }
    assert page.one(id="source").text.split() == ["flowchart", "LR", 'A["<b>\'"]', "-->", "B"]


def test_a_diagram_loads_its_files_where_a_proxy_passes_on_another_host(
    owner_client: Client, diagram: Part, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://chat.example"
    answer = owner_client.get(address(diagram, "page"), headers=IN_FRAME)
    page = parse(answer.content.decode())
    for file in (*(each["src"] for each in page.all("script")), page.one("link")["href"]):
        for host in ("http://testserver", "https://chat.example"):
            assert f"{host}{file}" in answer["Content-Security-Policy"].replace(";", " ").split()


@pytest.mark.parametrize("theme", ["", "light", "dark"])
def test_a_diagram_is_strict_and_has_the_theme_of_its_person(
    owner_client: Client, owner: Member, diagram: Part, theme: str
) -> None:
    Member.objects.filter(pk=owner.pk).update(theme=theme)
    page = parse(owner_client.get(address(diagram, "page"), headers=IN_FRAME).content.decode())
    light, dark = (json.loads(page.one("body")[f"data-{name}"]) for name in ("light", "dark"))
    assert light["securityLevel"] == dark["securityLevel"] == "strict"
    assert "securityLevel" in light["secure"]
    assert (light == dark) == bool(theme)
    assert bool(light["themeVariables"].get("darkMode")) == (theme == "dark")


def test_a_diagram_that_is_too_long_gets_no_script(owner_client: Client, owner: Member) -> None:
    text = f"```mermaid\nflowchart LR\n  A[{'x' * MOST_CHARACTERS}]\n```\n"
    part = rows.said(rows.turn(owner, Turn.State.DONE), text)
    answer = owner_client.get(address(part, "page"), headers=IN_FRAME)
    assert "Diagrams with more than 20,000 characters are not drawn." in answer.content.decode()
    assert parse(answer.content.decode()).all("script") == []
    assert "script-src 'none'" in answer["Content-Security-Policy"]


def test_only_the_files_of_a_diagram_may_be_loaded_by_a_frame_without_an_origin(
    client: Client,
) -> None:
    found = {
        name: client.get(f"/static/{name}")["Cross-Origin-Resource-Policy"]
        for name in (*DIAGRAM_SCRIPTS, DIAGRAM_STYLE, "js/palette.js")
    }
    assert list(found.values()) == [*["cross-origin"] * 3, "same-origin"]


def test_nobody_else_sees_it(client: Client, stranger: Member, part: Part) -> None:
    client.force_login(stranger)
    for view in ("preview", "page"):
        assert client.get(address(part, view), headers=IN_FRAME).status_code == 404
