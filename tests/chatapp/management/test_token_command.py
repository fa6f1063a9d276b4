"""`manage.py token`: what an operator makes, sees and revokes."""

import pytest

from chatapp.models import AccessToken, LogEntry, Member
from tests.commands import Ran

pytestmark = pytest.mark.django_db


def create(*words: str) -> Ran:
    return Ran("token", "create", "Night job", "--scope", "mcp", *words)


def test_a_token_is_made_for_the_only_member(owner: Member) -> None:
    ran = create("--scope", "tools", "--days", "3")
    token = AccessToken.objects.get()
    assert token.is_opened_by(ran.out.splitlines()[0])
    assert (token.person, token.scopes, token.name) == (owner, ["mcp", "tools"], "Night job")
    assert LogEntry.objects.latest("position").actor_name == "operator"


def test_json_says_all_and_the_text_only_when_made(owner: Member, stranger: Member) -> None:
    made = create("--user", "stranger", "--json").json
    token = AccessToken.objects.get()
    assert token.is_opened_by(made.pop("token"))
    assert (made["person"], made["prefix"]) == ("stranger", f"cs_{token.prefix}")
    assert Ran("token", "list", "--json").json == [made]
    assert Ran("token", "list", "--user", "owner", "--json").json == []


def test_a_token_is_revoked_by_what_it_begins_with(owner: Member) -> None:
    create()
    token = AccessToken.objects.get()
    assert Ran("token", "revoke", f"cs_{token.prefix}").code == 0
    assert not AccessToken.objects.live().exists()
    again = Ran("token", "revoke", token.prefix)
    assert (again.code, "not_found" in again.err) == (1, True)
    assert "no longer valid" in Ran("token", "list").out


def test_with_user_only_that_members_tokens_are_revoked(owner: Member, stranger: Member) -> None:
    create("--user", "owner")
    prefix = AccessToken.objects.get().prefix
    assert Ran("token", "revoke", prefix, "--user", "stranger").code == 1
    assert Ran("token", "revoke", prefix, "--user", "owner", "--json").json["revoked_at"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "x", "--scope", "mcp", "--days", "0"], "--days must be a number from 1 to 366"),
        (["create", "x", "--scope", "mcp", "--days", "9999"], "--days must be a number"),
        (["create", " ", "--scope", "mcp"], "NAME must have 1 to 60 characters"),
        (["create", "x" * 61, "--scope", "mcp"], "NAME must have 1 to 60 characters"),
        (["create", "x", "--scope", "mcp", "--user", "nobody"], "no active member"),
    ],
)
def test_what_cannot_be_is_refused_in_words(owner: Member, words: list[str], said: str) -> None:
    ran = Ran("token", *words)
    assert (ran.code, said in ran.err) == (1, True), ran.err
    assert not AccessToken.objects.exists()


def test_an_unknown_scope_is_wrong_usage(owner: Member) -> None:
    assert Ran("token", "create", "x", "--scope", "all").code != 0
    assert not AccessToken.objects.exists()


def test_without_tokens_the_list_says_so(owner: Member) -> None:
    assert Ran("token", "list").out.strip() == "There are no tokens."
