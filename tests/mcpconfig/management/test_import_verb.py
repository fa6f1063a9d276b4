"""Import with a preview, in the admin and from the command line: nothing is saved unseen, no secret
is shown, and the same checks hold as in the form."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag
from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from chatapp.models import LogEntry, Member
from mcpconfig.models import Credential, Service
from mcpconfig.secrets import credentials
from mcpconfig.values.import_formats import MAX_ENTRIES, MAX_PLACEHOLDERS
from tests.conftest import signed_in
from tests.mcp_command import Ran

pytestmark = pytest.mark.timeout(300)

IMPORT, EXPORT = "/admin/mcpconfig/service/import/", "/admin/mcpconfig/service/export/"
URL = "https://one.example/mcp"
CANARY = "canary-import-0123456789"


def servers(**entries: Any) -> str:
    return json.dumps({"mcpServers": entries})


WITH_TOKEN = servers(one={"url": URL, "headers": {"Authorization": f"Bearer {CANARY}"}})
WITH_BLANK = servers(one={"url": URL, "headers": {"Authorization": "Bearer ${input:token}"}})


def page(answer: Any) -> BeautifulSoup:
    return BeautifulSoup(answer.content.decode(), "html.parser")


def preview(client: Client, text: str) -> BeautifulSoup:
    answer = client.post(IMPORT, {"text": text})
    assert answer.status_code == 200
    assert not Service.objects.filter(name="one").exists(), "nothing is saved by looking"
    return page(answer)


def filled(found: BeautifulSoup, **changes: Any) -> dict[str, str]:
    """What the page's form would post."""
    fields = {}
    for each in found.select("form.import input[name]"):
        is_box = each.get("type") in ("checkbox", "radio")
        if not is_box or each.has_attr("checked"):
            fields[str(each["name"])] = str(each.get("value", "on" if is_box else ""))
    fields |= changes
    return {name: value for name, value in fields.items() if value is not None}


def complaint(found: BeautifulSoup) -> str:
    said = found.select_one("[role=alert]")
    assert isinstance(said, Tag)
    return said.get_text()


# --- the admin's pages ---------------------------------------------------------------------------
def test_what_is_ticked_is_added_with_its_token(admin_client: Client) -> None:
    seen = preview(admin_client, WITH_TOKEN)
    assert "Bearer token: Authorization Bearer •••\n" in f"{seen.get_text()}\n"
    assert CANARY[-4:] not in str(seen.select("fieldset"))
    answer = admin_client.post(IMPORT, filled(seen))
    assert answer.status_code == 302
    service = Service.objects.get()
    assert (service.name, service.url, service.authentication) == ("one", URL, "bearer")
    assert (service.is_trusted, service.is_open, service.new_tools) == (False, True, "wait")
    assert "6789" in credentials.summarize_secret(service, "bearer")
    assert CANARY.encode() not in bytes(Credential.objects.get().bearer)


@pytest.mark.parametrize(
    ("chosen", "visibility"),
    [({}, "private"), ({"access": "everyone"}, "everyone"), ({"access": "nonsense"}, "private")],
)
def test_only_admins_can_use_an_imported_service_until_one_chooses(
    admin_client: Client, owner: Member, chosen: dict[str, str], visibility: str
) -> None:
    seen = preview(admin_client, WITH_TOKEN)
    assert filled(seen)["access"] == "private"
    admin_client.post(IMPORT, filled(seen) | chosen)
    service = Service.objects.get()
    assert (service.visibility, service.owner) == (visibility, None)
    usable = Service.objects.for_member(owner)
    assert usable.exists() == (visibility == "everyone")


def test_an_admin_chooses_groups_for_all_that_is_imported(
    admin_client: Client, owner: Member
) -> None:
    group = Group.objects.create(name="Editors")
    owner.groups.add(group)
    fields = filled(preview(admin_client, WITH_TOKEN), access="groups")
    assert "Choose a group." in complaint(page(admin_client.post(IMPORT, fields)))
    again = page(admin_client.post(IMPORT, fields | {"groups": "999"}))
    assert "not one of the available choices" in complaint(again)
    assert not Service.objects.exists()
    assert admin_client.post(IMPORT, fields | {"groups": str(group.pk)}).status_code == 302
    service = Service.objects.get()
    assert (service.visibility, [*service.groups.all()]) == ("groups", [group])
    assert Service.objects.for_member(owner).exists()


def test_no_secret_is_on_the_page_or_in_the_log(admin_client: Client) -> None:
    text = servers(
        one={"url": f"{URL}?api_key={CANARY}", "headers": {"X-Key": CANARY, "X-Two": "y"}}
    )
    answer = admin_client.post(IMPORT, {"text": text})
    assert CANARY not in answer.content.decode()
    admin_client.post(IMPORT, filled(page(answer)))
    service = Service.objects.get()
    assert (service.authentication, service.is_open) == ("headers", True)
    assert CANARY not in str([entry.data for entry in LogEntry.objects.all()])


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"url": f"{URL}?k={CANARY}&v=1"}, f"{URL}?k=•••&v=•••"),
        ({"url": f"{URL}?{CANARY}"}, f"{URL}?•••"),
        ({"url": f"{URL}?{CANARY}=="}, f"{URL}?•••"),
        ({"url": f"{URL}?v=a?{CANARY}=b"}, f"{URL}?v=•••"),
        ({"url": f"{URL}#{CANARY}"}, f"{URL}#•••"),
        ({"url": f"https://me:{CANARY}@one.example/mcp"}, "https://•••@one.example/mcp"),
        ({"url": f"https://one.example@{CANARY}@two.example/"}, "https://•••@two.example/"),
        ({"url": f"me:{CANARY}@one.example"}, "•••"),
        ({"url": f"{URL}?k=${{input:k}}{CANARY}"}, f"{URL}?k=${{input:k}}•••"),
        ({"url": f"{URL}?k=${{K:-{CANARY}}}"}, f"{URL}?k=${{K}}"),
        ({"url": URL, "headers": {"X-Team": CANARY}}, "X-Team •••"),
        ({"url": URL, "headers": {"Authorization": f"Basic {CANARY}"}}, "Basic •••"),
        ({"url": URL, "headers": {"X": f"{CANARY} ${{input:k}}"}}, "X •••${input:k}"),
        ({"url": URL, "headers": {"X": f"${{K:-{CANARY}}}"}}, "X ${K}"),
        ({"url": URL, "headers": {"X": f"{{{CANARY}}}"}}, "X •••"),
        ({"url": URL, "headers": {"X": "y"}, "env": {"KEY": CANARY}}, "X •••"),
    ],
)
def test_no_part_of_a_secret_is_shown_whatever_it_is_called(
    admin_client: Client, said: dict[str, Any], shown: str
) -> None:
    seen = preview(admin_client, servers(one=said))
    where = seen.select_one("p.where")
    assert where is not None and shown in where.get_text()
    assert CANARY not in str(seen)
    assert CANARY[-4:] not in str(seen.select("fieldset"))


@pytest.mark.parametrize("odd", ["\ud800", "\udfff token", "zero \x00"])
def test_what_no_text_can_hold_is_refused(admin_client: Client, odd: str) -> None:
    for text in (servers(**{odd: {"url": URL}}), servers(one={"url": URL, "headers": {"X": odd}})):
        answer = admin_client.post(IMPORT, {"text": text})
        assert answer.status_code == 422
        assert "invalid characters" in complaint(page(answer))


@pytest.mark.long
def test_the_largest_preview_can_be_sent_back(admin_client: Client) -> None:
    """As many services, values to enter and bytes as are read at all; none of it packs well."""
    noise = Random(0)  # noqa: S311  no secret
    entries = {
        f"s{n}": {
            "url": f"https://s{n}.example/mcp",
            "headers": {"X-A": f"${{input:a{n}}}", "X-B": f"${{input:b{n}}}"},
            "note": noise.randbytes(1_200).hex(),
        }
        for n in range(MAX_ENTRIES)
    }
    seen = page(admin_client.post(IMPORT, {"text": servers(**entries)}))
    values = [str(each["name"]) for each in seen.select("input[type=password]")]
    assert len(values) == MAX_PLACEHOLDERS
    sent = filled(seen, **{name: noise.randbytes(1_000).hex() for name in values}, **{"name-0": ""})
    again = page(admin_client.post(IMPORT, sent))
    assert complaint(again)
    mended = filled(again, **{"name-0": "first"})
    assert admin_client.post(IMPORT, mended).status_code == 302
    assert Service.objects.count() == MAX_ENTRIES


def test_a_value_that_is_too_long_is_said(admin_client: Client) -> None:
    sent = filled(preview(admin_client, WITH_BLANK), **{"value-0-0": "x" * 2_001})
    assert "too long" in complaint(page(admin_client.post(IMPORT, sent)))
    assert not Service.objects.exists()


def test_a_file_can_be_chosen(admin_client: Client) -> None:
    file = SimpleUploadedFile("mcp.json", WITH_TOKEN.encode())
    assert "Bearer token" in page(admin_client.post(IMPORT, {"file": file})).get_text()
    odd = SimpleUploadedFile("mcp.json", b"\xff\xfe\x00")
    assert "This is not a text file." in complaint(page(admin_client.post(IMPORT, {"file": odd})))


def test_what_cannot_be_read_stays_in_its_box(admin_client: Client) -> None:
    answer = admin_client.post(IMPORT, {"text": "{ not JSON <b>"})
    assert answer.status_code == 422
    assert "This is not valid JSON." in complaint(page(answer))
    box = page(answer).select_one("textarea[name=text]")
    assert box is not None and box.get_text().strip() == "{ not JSON <b>"


def test_a_blank_is_asked_for_and_never_filled_from_the_environment(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("token", CANARY)
    seen = preview(admin_client, WITH_BLANK.replace("input:token", "token"))
    answer = admin_client.post(IMPORT, filled(seen))
    assert answer.status_code == 422
    assert "Enter a value for “token”." in complaint(page(answer))
    assert not Service.objects.exists()

    added = admin_client.post(IMPORT, filled(page(answer), **{"value-0-0": "typed-token-4321"}))
    assert added.status_code == 302
    assert "4321" in credentials.summarize_secret(Service.objects.get(), "bearer")


def test_what_was_entered_is_kept_while_something_else_is_mended(admin_client: Client) -> None:
    Service.objects.create(name="taken", url="https://a.example")
    seen = preview(admin_client, WITH_BLANK)
    wrong = filled(seen, **{"value-0-0": CANARY, "name-0": "taken"})
    answer = admin_client.post(IMPORT, wrong)
    assert answer.status_code == 422
    assert CANARY not in answer.content.decode()
    assert "Entered. Leave empty to keep it." in answer.content.decode()
    mended = filled(page(answer), **{"name-0": "free"})
    assert mended["value-0-0"] == ""
    assert admin_client.post(IMPORT, mended).status_code == 302
    assert "6789" in credentials.summarize_secret(Service.objects.get(name="free"), "bearer")


def test_a_clash_is_told_and_not_ticked(admin_client: Client) -> None:
    Service.objects.create(name="one", url=URL, guidance="Stays.")
    seen = page(admin_client.post(IMPORT, {"text": WITH_TOKEN}))
    assert "This name is taken." in complaint(seen)
    assert "There is already a service at this address: one." in seen.get_text()
    assert "add-0" not in filled(seen)
    answer = admin_client.post(IMPORT, filled(seen))
    assert "Select at least one service." in complaint(page(answer))
    assert Service.objects.get().guidance == "Stays.", "nothing is overwritten"


def test_two_that_would_have_one_name_are_not_both_added(admin_client: Client) -> None:
    text = servers(**{"my one": {"url": URL}, "my/one": {"url": URL}})
    answer = admin_client.post(IMPORT, filled(page(admin_client.post(IMPORT, {"text": text}))))
    assert "has the name “my-one”" in complaint(page(answer))
    assert not Service.objects.exists(), "all or none"


def test_a_program_is_refused_and_the_rest_can_be_added(admin_client: Client) -> None:
    text = servers(program={"command": "npx"}, one={"url": URL})
    seen = preview(admin_client, text)
    assert "Countersign starts no programs" in seen.get_text()
    admin_client.post(IMPORT, filled(seen))
    assert [service.name for service in Service.objects.all()] == ["one"]


def test_the_form_of_services_has_the_last_word(admin_client: Client) -> None:
    seen = preview(admin_client, servers(one={"url": "http://10.0.0.1/mcp"}))
    assert "must begin with https://" in complaint(seen)
    fields = filled(seen, **{"add-0": "on"})
    assert admin_client.post(IMPORT, fields).status_code == 422
    assert admin_client.post(IMPORT, fields | {"private-0": "on"}).status_code == 302
    assert Service.objects.get().allows_private_addresses


@pytest.mark.parametrize(
    "headers", [{"Host": "inside"}, {"X": "{env.SECRET_KEY}"}, {"X": "naïve"}, {"mcp-x": "1"}]
)
def test_headers_are_checked_as_in_the_form(admin_client: Client, headers: dict[str, str]) -> None:
    seen = preview(admin_client, servers(one={"url": URL, "headers": headers}))
    assert complaint(seen)
    admin_client.post(IMPORT, filled(seen, **{"add-0": "on"}))
    assert not Service.objects.exists()


def test_only_admins_import_and_export(
    stranger_client: Client, client: Client, admin_client: Client, db: None
) -> None:
    """A preview that one admin made cannot be used by another."""
    sealed = filled(preview(admin_client, WITH_TOKEN))
    for address in (IMPORT, EXPORT):
        for somebody in (stranger_client, client):
            assert somebody.get(address).status_code in (302, 403)
            assert somebody.post(address, sealed).status_code in (302, 403)
    second = Member.objects.create_superuser("second", password="x")
    answer = signed_in(second).post(IMPORT, sealed, follow=True)
    assert "This preview cannot be read." in page(answer).get_text()
    assert not Service.objects.exists()


@pytest.mark.parametrize("sealed", ["", "x", "gAAAA" * 10, "é"])
def test_a_forged_preview_is_refused(admin_client: Client, sealed: str) -> None:
    answer = admin_client.post(IMPORT, {"sealed": sealed, "add-0": "on"}, follow=True)
    assert "This preview cannot be read." in page(answer).get_text()


# --- the command ---------------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(WITH_TOKEN)
    return path


def test_a_dry_run_says_what_would_be_and_saves_nothing(file: Path) -> None:
    ran = Ran("import", str(file), "--dry-run")
    assert ran.code == 0, ran.err
    assert ran.out == f"Would add one: {URL}, Bearer token: Authorization Bearer •••\n"
    assert not Service.objects.exists()


def test_the_command_adds_what_can_be_and_names_the_rest(file: Path) -> None:
    file.write_text(servers(one={"url": URL}, program={"command": "x"}))
    ran = Ran("import", str(file), "--json")
    assert (ran.code, [each["name"] for each in ran.json["added"]]) == (0, ["one"])
    assert "stdio" in ran.json["refused"]["program"]
    again = Ran("import", str(file))
    assert (again.code, "Nothing can be added." in again.err) == (1, True)
    assert Service.objects.count() == 1


@pytest.mark.parametrize(
    ("words", "visibility"),
    [([], "private"), (["--everyone"], "everyone"), (["--group", "Editors"], "groups")],
)
def test_the_command_adds_for_admins_unless_it_is_told_for_whom(
    file: Path, db: None, words: list[str], visibility: str
) -> None:
    Group.objects.create(name="Editors")
    entry = {"url": URL, "visibility": "everyone"}
    file.write_text(servers(one=entry))  # a file opens a service to nobody
    ran = Ran("import", str(file), *words)
    service = Service.objects.get()
    assert (service.visibility, service.owner) == (visibility, None)
    assert service.groups.exists() == (visibility == "groups")
    assert ("Only admins can use them." in ran.out) == (visibility == "private")


def test_a_blank_is_filled_only_from_the_variable_that_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(WITH_BLANK.replace("input:token", "TOKEN"))
    monkeypatch.setenv("TOKEN", "not-meant")
    monkeypatch.setenv("MEANT", CANARY)
    unnamed = Ran("import", str(file))
    assert (unnamed.code, "Enter a value for “TOKEN”." in unnamed.err) == (1, True)
    named = Ran("import", str(file), "--value-env", "TOKEN=MEANT")
    assert (named.code, CANARY in named.out) == (0, False)
    assert "6789" in credentials.summarize_secret(Service.objects.get(), "bearer")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere.json",), "can’t be read as text"),
        (("{file}", "--value-env", "x=MEANT"), "There is no blank ${x} in the file."),
        (("{file}", "--value-env", "x"), "BLANK=VAR"),
    ],
)
def test_the_command_says_what_is_wrong(
    file: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.setenv("MEANT", "x")
    ran = Ran("import", *(word.format(file=file) if "{file}" in word else word for word in words))
    assert (ran.code, sentence in ran.err) == (1, True), ran.err
    assert not Service.objects.exists()


def test_private_addresses_are_allowed_where_the_operator_says_so(file: Path) -> None:
    file.write_text(servers(one={"url": "http://127.0.0.1:9/mcp"}))
    assert Ran("import", str(file)).code == 1
    assert Ran("import", str(file), "--allow-private").code == 0
    assert Service.objects.get().allows_private_addresses
