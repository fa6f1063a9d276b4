"""Whatever is typed wrong after `manage.py mcp`: an exit code, a sentence, and with `--json` one
error on standard output and nothing else. Every verb has its rows."""

import json
from collections.abc import Iterator

import pytest
from django.core.management import ManagementUtility

from chatapp.models import Member
from mcpconfig.management.commands.mcp import Command
from mcpconfig.models import Service
from tests.mcp_command import Ran
from tests.peers import questioner as questioning_server
from tests.peers.questioner import QuestionLog
from tests.peers.serving import Served

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

URL = "https://one.example/mcp"
NEEDS_A_SERVICE = (
    *("remove", "set", "test", "status", "tools", "resources", "templates", "prompts", "trace"),
    *("confirm", "retry", "sign-ins"),
)
WITH_MORE = {
    "tool": ("echo",),
    "call": ("echo",),
    "task": ("7",),
    "read": ("book://moby",),
    "prompt": ("review",),
    "complete": ("review", "tone", ""),
}
UNKNOWN_SERVICE = [
    *((verb, "nobody") for verb in NEEDS_A_SERVICE),
    *((verb, "nobody", *more) for verb, more in WITH_MORE.items()),
]
DEEP = "[" * 50_000

# What is typed, and words of the sentence that it gets.
WRONG: dict[tuple[str, ...], str] = {
    # the address
    ("add", "one", "one.example"): "must begin with https://",
    ("add", "one", ""): "must begin with https://",
    ("add", "one", "https://"): "must begin with https://",
    ("add", "one", "ftp://one.example/mcp"): "must begin with https://",
    ("add", "one", "file:///etc/passwd"): "must begin with https://",
    ("add", "one", "javascript:alert(1)"): "must begin with https://",
    ("add", "one", "http://one.example/mcp"): "must begin with https://",
    ("add", "one", "https://me:secret@one.example/mcp"): "user name or password",
    ("add", "one", "https://one.example:0/mcp"): "port does not exist",
    ("add", "one", "https://[::1/mcp"): "can’t be read",
    ("add", "one", "https://one.example/" + "x" * 2000): "url: ",
    ("set", "box", "--url", "nonsense"): "must begin with https://",
    ("set", "box", "--url", "https://me:secret@one.example/"): "user name or password",
    ("set", "box", "--url", "http://one.example/", "--no-allow-private"): "must begin with https",
    # a company's identity provider
    ("identity-provider", "idp"): "no identity provider “idp”",
    ("identity-provider", "idp", "--issuer", "nonsense", "--client-id", "c"): "must begin with",
    ("identity-provider", "nobody", "--remove"): "no identity provider “nobody”",
    # a file of services
    ("import", "nowhere.json"): "can’t be read as text",
    # the name
    ("add", "box", URL): "This name is taken.",
    ("add", "not a slug", URL): "name: ",
    ("add", "", URL): "name: ",
    ("add", "x" * 61, URL): "name: ",
    # the other fields
    ("add", "one", URL, "--icon", "word"): "one emoji or one letter",
    ("add", "one", URL, "--app-origin", "one.example"): "is not an origin",
    ("add", "one", URL, "--retries", "11"): "most retries: ",
    ("add", "one", URL, "--retries", "-1"): "most retries: ",
    ("add", "one", URL, "--owner", "nobody"): "no member “nobody”",
    ("add", "one", URL, "--group", "nobody"): "no group “nobody”",
    ("add", "one", URL, "--owner", "stranger", "--allow-private"): "Only an admin’s service",
    ("add", "one", "builtin:notebook", "--owner", "stranger"): "belong to the admins",
    ("set", "box"): "Nothing to change",
    ("set", "box", "--title", "x" * 101): "title: ",
    # signing in
    ("add", "one", URL, "--bearer-env", "UNSET_VARIABLE"): "UNSET_VARIABLE is not set",
    ("add", "one", URL, "--bearer-env", "TWO_WORDS"): "has invalid characters",
    ("add", "one", URL, "--header", "nonsense"): "NAME=VALUE",
    ("add", "one", URL, "--header", "X=1\nY: 2"): "NAME=VALUE",
    ("add", "one", URL, "--header", "X="): "Name: value",
    ("add", "one", URL, "--header", "X={user.password}"): "Unknown placeholder",
    ("add", "one", URL, "--header", "Host=elsewhere"): "The protocol sets",
    ("add", "one", URL, "--client-id", "an-id"): "need OAuth",
    ("add", "one", URL, "--scope", "tools"): "need OAuth",
    ("add", "one", URL, "--client-credentials"): "client id: Required.",
    ("add", "one", URL, "--oauth", "--client-secret-env", "UNSET_VARIABLE"): "is not set",
    ("set", "box", "--url", URL, "--bearer-env", "UNSET_VARIABLE"): "is not set",
    ("sign-ins", "box", "--revoke", "nobody"): "no member “nobody”",
    ("sign-ins", "box", "--revoke", "owner"): "“owner” is not signed in",
    ("sign-ins", "box", "--revoke-shared"): "no shared sign-in",
    # who acts
    ("call", "box", "echo", "--user", "nobody"): "no member “nobody”",
    ("test", "box", "--user", "nobody"): "no member “nobody”",
    ("tools", "private", "--user", "owner"): "can’t use the service “private”",
    # tools and their arguments
    ("call", "box", "nothing"): "no tool “nothing”",
    ("confirm", "box", "nothing"): "no tool “nothing”",
    ("tool", "box", "nothing"): "no tool “nothing”",
    ("call", "box", "echo", "{"): "not JSON",
    ("call", "box", "echo", DEEP): "not JSON",
    ("call", "box", "echo", '{"text": NaN}'): "not JSON",
    ("call", "box", "echo", '{"text": "\\ud800"}'): "not JSON",
    ("call", "box", "echo", ""): "not JSON",
    ("call", "box", "echo", "[1]"): "must be a JSON object",
    ("call", "box", "echo", '"text"'): "must be a JSON object",
    ("call", "box", "echo", "null"): "must be a JSON object",
    ("call", "box", "echo"): "Missing: text",
    ("call", "box", "echo", '{"text": 3}'): "text must be text, not 3",
    ("call", "box", "add", '{"a": 1, "b": "2"}'): "b must be a whole number",
    # answers
    ("call", "asker", "visit", "--answer", "page"): "KEY=JSON",
    ("call", "asker", "visit", "--answer", "page="): "not JSON",
    ("call", "asker", "visit", "--answer", "page={"): "not JSON",
    ("call", "asker", "visit", "--answer", "page=[]"): "must be a JSON object",
    ("task", "asker", "7", "--answer", "page"): "KEY=JSON",
    # resources, prompts, proposals
    ("read", "lib", "not a uri"): "",
    ("read", "lib", "book:nowhere"): "",
    ("read", "box", "book://moby"): "",
    ("read", "lib", "x:" + "x" * 10_000): "",
    ("prompt", "lib", "nothing"): "",
    ("prompt", "lib", "review"): "",
    ("prompt", "lib", "review", "{"): "not JSON",
    ("prompt", "lib", "review", "[]"): "must be a JSON object",
    ("prompt", "lib", "review", '{"book": 3}'): "must be text",
    ("complete", "box", "review", "tone", ""): "offers no suggestions",
    # the trace
    ("trace", "box", "--operation", "nonsense"): "Name an operation by its id",
}
# Wrong usage: the parser's own words.
MISUSED: dict[tuple[str, ...], str] = {
    ("identity-providers", "surplus"): "surplus",
    ("add",): "required: name, url",
    ("add", "one"): "required: url",
    ("add", "one", URL, "--transport", "carrier-pigeon"): "invalid choice",
    ("add", "one", URL, "--colour", "mauve"): "invalid choice",
    ("add", "one", URL, "--retries", "many"): "invalid int",
    ("add", "one", URL, "--oauth", "--bearer-env", "X"): "not allowed with",
    ("add", "one", URL, "--private", "--group", "x"): "not allowed with",
    ("add", "one", URL, "--bearer-env"): "expected one argument",
    ("add", "one", URL, "--bogus"): "--bogus",
    ("list", "box"): "box",
    ("export", "box"): "box",
    **{(verb,): "required: name" for verb in NEEDS_A_SERVICE},
    **{(verb, "box"): "required: " for verb in WITH_MORE},
    ("complete", "lib", "review", "tone"): "required: value",
    ("tool", "box", "echo", "--level", "extreme"): "invalid choice",
    ("trace", "box", "--limit", "all"): "invalid int",
    ("sign-ins", "box", "--revoke", "x", "--revoke-shared"): "not allowed with",
}


@pytest.fixture
def _services(
    modern: Served,
    modern_library: Served,
    owner: Member,
    stranger: Member,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    monkeypatch.setenv("TWO_WORDS", "two words")
    with Served(questioning_server.application(QuestionLog(), "modern")) as asker:
        for name, served in (("box", modern), ("lib", modern_library), ("asker", asker)):
            Service.objects.create(name=name, url=served.url, allows_private_addresses=True)
        Service.objects.create(name="private", url=modern.url, visibility="private", owner=stranger)
        yield


def error_in(printed: str) -> dict[str, str]:
    """The one thing that was printed, which must be an error and nothing else."""
    value = json.loads(printed)
    assert list(value) == ["error"]
    assert list(value["error"]) == ["kind", "message", "hint"]
    assert value["error"]["message"].strip()
    found: dict[str, str] = value["error"]
    return found


def configured() -> list[tuple[object, ...]]:
    fields = ("name", "url", "title", "icon", "authentication", "visibility", "owner_id")
    return list(Service.objects.values_list(*fields))


def shortened(words: tuple[str, ...]) -> str:
    return " ".join(words)[:70]


@pytest.mark.usefixtures("_services")
@pytest.mark.parametrize("words", [*WRONG, *UNKNOWN_SERVICE], ids=shortened)
def test_what_cannot_be_is_said_in_a_sentence(words: tuple[str, ...]) -> None:
    before = configured()

    told, printed = Ran(*words), Ran(*words, "--json")

    assert (told.code, printed.code) == (1, 1)
    error = error_in(printed.out)
    assert WRONG.get(words, "no service “nobody”") in error["message"]
    assert error["kind"] != "internal"
    assert told.out == ""
    for said in (told.err, printed.err):
        assert said.startswith(f"{error['kind']}: {error['message']}")
        assert "Traceback" not in said
        assert "\n" not in error["message"]
    assert configured() == before


@pytest.mark.usefixtures("_services")
@pytest.mark.parametrize("words", MISUSED, ids=shortened)
def test_wrong_usage_exits_with_two(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for extra in ((), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            ManagementUtility(["manage.py", "mcp", *words, *extra]).execute()
        assert ended.value.code == 2
        out, err = capsys.readouterr()
        assert err.startswith("usage: ")
        assert MISUSED[words] in err
        assert "Traceback" not in err
        assert (error_in(out)["kind"] == "usage") if extra else out == ""


def test_each_verb_has_its_rows() -> None:
    parser = Command().create_parser("manage.py", "mcp")
    verbs = next(action.choices for action in parser._actions if action.dest == "verb")
    assert verbs is not None
    assert set(verbs) == {words[0] for words in [*WRONG, *MISUSED, *UNKNOWN_SERVICE]}
