"""The verbs of `manage.py mcp` that read: JSON for programs, safe lines for people."""

import base64

import pytest

from mcpconfig.models import Service
from tests.mcp_command import Ran
from tests.peers.hostile import Hostile
from tests.peers.library import PICTURE
from tests.peers.serving import Served

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def library(modern_library: Served) -> Served:
    assert Ran("add", "lib", modern_library.url, "--allow-private").code == 0
    return modern_library


@pytest.fixture
def bare(modern: Served) -> Served:
    assert Ran("add", "bare", modern.url, "--allow-private").code == 0
    return modern


def test_resources_are_printed(library: Served) -> None:
    listed = {resource["uri"]: resource for resource in Ran("resources", "lib", "--json").json}

    assert listed["book://moby"] == {
        "uri": "book://moby",
        "name": "moby",
        "title": "Moby-Dick",
        "description": "A whale.",
        "mimeType": "text/plain",
        "size": None,
    }
    assert "Moby-Dick" in Ran("resources", "lib").out


def test_templates_are_printed_with_their_variables(library: Served) -> None:
    (template,) = Ran("templates", "lib", "--json").json

    assert template["uriTemplate"] == "book://{shelf}/{name}"
    assert template["variables"] == ["shelf", "name"]
    assert "book://{shelf}/{name}" in Ran("templates", "lib").out


def test_prompts_are_printed_with_their_arguments(library: Served) -> None:
    (prompt,) = Ran("prompts", "lib", "--json").json

    assert prompt["name"] == "review"
    assert [(one["name"], one["required"]) for one in prompt["arguments"]] == [
        ("book", True),
        ("tone", False),
    ]
    assert "review book [tone]" in Ran("prompts", "lib").out


def test_a_resource_is_printed(library: Served) -> None:
    assert Ran("read", "lib", "book://moby", "--json").json == {
        "contents": [
            {"uri": "book://moby", "mimeType": "text/plain", "text": "Call me Ishmael."},
        ],
        "was_cut": False,
    }
    assert Ran("read", "lib", "book://moby").out == "Call me Ishmael.\n"


def test_bytes_are_printed_in_base64_to_programs_and_described_to_people(library: Served) -> None:
    (part,) = Ran("read", "lib", "book://cover", "--json").json["contents"]

    assert base64.b64decode(part["blob"]) == PICTURE
    described = f"[image/png, {len(PICTURE)} bytes: book://cover]\n"
    assert Ran("read", "lib", "book://cover").out == described


def test_a_prompt_is_printed(library: Served) -> None:
    ran = Ran("prompt", "lib", "review", '{"book": "Emma"}', "--json")

    assert ran.json["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Review Emma."}},
        {"role": "assistant", "content": {"type": "text", "text": "In a kind tone?"}},
    ]
    assert "user: Review Emma." in Ran("prompt", "lib", "review", '{"book": "Emma"}').out


def test_proposals_are_printed(library: Served) -> None:
    assert Ran("complete", "lib", "review", "tone", "gr", "--json").json == {
        "values": ["green", "grey"],
        "total": None,
        "has_more": False,
    }
    assert Ran("complete", "lib", "review", "tone", "gr").out == "green\ngrey\n"
    assert Ran("complete", "lib", "book://{shelf}/{name}", "name", "b").out == "any-b1\n…\n"


def test_nothing_to_list_is_said(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("html"), "--allow-private")

    for verb in ("resources", "templates", "prompts"):
        assert Ran(verb, "bad", "--json").json == []
        assert Ran(verb, "bad").out == f"No {verb}.\n"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("read", "lib", "book:nowhere"), "rpc_error"),
        (("read", "lib", "not a uri"), "configuration"),
        (("prompt", "lib", "nothing"), "rpc_error"),
        (("prompt", "lib", "review", "{"), "configuration"),
        (("prompt", "lib", "review", '{"book": 3}'), "configuration"),
        (("complete", "bare", "review", "tone", ""), "rpc_error"),
        (("resources", "nobody"), "configuration"),
    ],
)
def test_a_failure_is_said_on_standard_error_and_in_json(
    library: Served, bare: Served, words: tuple[str, ...], kind: str
) -> None:
    ran = Ran(*words, "--json")

    assert ran.code == 1
    assert set(ran.json["error"]) == {"kind", "message", "hint"}
    assert ran.json["error"]["kind"] == kind
    assert ran.err.startswith(f"{kind}: ")
    assert "Traceback" not in ran.err


def test_what_a_service_writes_cannot_steer_the_terminal(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("reading_colours"), "--allow-private")

    ran = Ran("read", "bad", "a:b")

    assert ran.out == "�[2Jall� is well\tand good\n"


def test_a_cut_resource_says_so(hostile: Hostile) -> None:
    Ran("add", "bad", hostile.url("reading_heavy"), "--allow-private")

    assert Ran("read", "bad", "a:b").out == "kept\n[The rest is too large and was dropped.]\n"
    assert Ran("read", "bad", "a:b", "--json").json["was_cut"] is True


def test_a_test_counts_resources_and_prompts(library: Served) -> None:
    report = Ran("test", "lib", "--json").json

    assert (report["resource_count"], report["template_count"], report["prompt_count"]) == (3, 1, 1)
    assert report["tool_tokens"] == 0
    assert report["instructions"] == "Ask for books by name."
    assert "List resources: 3 listed" in Ran("test", "lib").out
    assert Service.objects.get().last_error is None
