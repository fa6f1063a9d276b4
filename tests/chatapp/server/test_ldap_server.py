"""The kind ldap of SIGN_IN_PROVIDERS: what is read, and what stops the start with which words."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatapp.server import ldap_server
from chatapp.server.environment import Environment
from chatapp.server.sign_in_providers import (
    LDAP_BACKEND,
    build_allauth_settings,
    list_provider_apps,
    list_provider_backends,
    read_providers,
)

RIGHT = {
    "id": "company",
    "name": "Example directory",
    "kind": "ldap",
    "servers": ["ldaps://ldap.example.com"],
    "bind_dn": "cn=reader,dc=example,dc=com",
    "bind_password": "hidden-secret",
    "user_base": "ou=people,dc=example,dc=com",
}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra need not be installed for reading the setting."""
    monkeypatch.setattr(ldap_server, "LIBRARY", "json")


def read(monkeypatch: pytest.MonkeyPatch, *entries: dict[str, Any]) -> Any:
    monkeypatch.setenv("SIGN_IN_PROVIDERS", json.dumps(entries))
    return read_providers(Environment())


def test_what_is_not_set_is_safe(monkeypatch: pytest.MonkeyPatch, library: None) -> None:
    (provider,) = read(monkeypatch, RIGHT)
    server = provider.ldap
    assert server.addresses == ("ldaps://ldap.example.com",)
    assert (server.user_filter, server.timeout_seconds) == ("(uid=%(user)s)", 5.0)
    assert (provider.creates_accounts, provider.links_by_email) == (False, False)
    assert "hidden-secret" not in repr(provider)
    (app,) = build_allauth_settings((provider,))["ldap"]["APPS"]
    assert app["client_id"] == app["provider_id"] == "company"
    assert list_provider_apps((provider,)) == []
    assert list_provider_backends((provider,)) == [LDAP_BACKEND]
    assert list_provider_backends(()) == []


def test_the_password_comes_from_another_variable(
    monkeypatch: pytest.MonkeyPatch, library: None
) -> None:
    monkeypatch.setenv("DIRECTORY_PASSWORD", "from there")
    entry = {**RIGHT, "bind_password": "", "bind_password_env": "DIRECTORY_PASSWORD"}
    (provider,) = read(monkeypatch, entry)
    assert provider.ldap.bind_password == "from there"


@pytest.mark.parametrize(
    "change",
    [
        {"servers": ["ldap://ldap.example.com", "ldap://other.example.com:389"], "start_tls": True},
        {"servers": ["ldap://127.0.0.1:3890"]},
        {"servers": ["ldap://[::1]"]},
        {"user_base": "", "user_dn": "uid=%(user)s,ou=people,dc=example,dc=com"},
        {"bind_dn": "", "bind_password": ""},
        {"user_filter": "(&(mail=%(user)s)(objectClass=person))"},
        {"group_base": "ou=groups,dc=example,dc=com", "required_groups": ["chat"]},
        {"timeout_seconds": 2.5},
    ],
)
def test_other_forms_are_read(
    monkeypatch: pytest.MonkeyPatch, library: None, change: dict[str, Any]
) -> None:
    (provider,) = read(monkeypatch, RIGHT | change)
    assert provider.ldap is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"servers": []}, "“servers” has at least one address"),
        ({"servers": ["ldap.example.com"]}, "“servers” has addresses such as"),
        ({"servers": ["https://ldap.example.com"]}, "“servers” has addresses such as"),
        ({"servers": ["ldaps://me:hidden-secret@ldap.example.com"]}, "“servers” has addresses"),
        ({"servers": ["ldaps://ldap.example.com/dc=com"]}, "“servers” has addresses such as"),
        ({"servers": ["ldaps://ldap.example.com ldap://b"]}, "“servers” has addresses such as"),
        ({"servers": ["ldaps://ldap.example.com,ldap://b"]}, "“servers” has addresses such as"),
        ({"servers": ["ldaps://ldap.example.com:port"]}, "“servers” has addresses such as"),
        ({"servers": ["ldap://ldap.example.com"]}, "“start_tls” is true, or"),
        ({"servers": ["ldap://127.0.0.1.example.com"]}, "“start_tls” is true, or"),
        ({"start_tls": True}, "“start_tls” is false"),
        ({"start_tls": "yes"}, "“start_tls” is true or false"),
        ({"ca_file": "/no/such/file"}, "“ca_file” is the path of a file"),
        ({"bind_password": ""}, "“bind_dn” and “bind_password”"),
        ({"bind_dn": ""}, "“bind_dn” and “bind_password”"),
        ({"bind_password": "", "bind_password_env": "NO_SUCH_VARIABLE"}, "“bind_dn” and"),
        ({"user_base": ""}, "either “user_base” or “user_dn”"),
        ({"user_dn": "uid=%(user)s,dc=com"}, "either “user_base” or “user_dn”"),
        ({"user_base": "", "user_dn": "uid=ada,dc=com"}, "“user_dn” contains %(user)s"),
        ({"user_base": "", "user_dn": "uid=%(user)s,%(place)s"}, "“user_dn” contains %(user)s"),
        ({"user_filter": "(uid=ada)"}, "“user_filter” is in parentheses"),
        ({"user_filter": "uid=%(user)s"}, "“user_filter” is in parentheses"),
        ({"user_filter": "(uid=%(user)s)(a=100%)"}, "“user_filter” is in parentheses"),
        ({"groups": {"chat": "Chat"}}, "“group_base” is set"),
        ({"required_groups": ["chat"]}, "“group_base” is set"),
        ({"group_type": "team"}, "“group_type” is groupOfNames or"),
        ({"timeout_seconds": 0}, "“timeout_seconds” is a number from 1 to 30"),
        ({"timeout_seconds": True}, "“timeout_seconds” is a number from 1 to 30"),
        ({"timeout_seconds": "5"}, "“timeout_seconds” is a number from 1 to 30"),
        ({"client_id": "countersign"}, "there is no “client_id”"),
        ({"required_claims": {"a": "b"}}, "there is no “required_claims”"),
        ({"user_filter": 7}, "“user_filter” is text"),
        ({"server": "ldaps://a"}, "there is no field “server”"),
    ],
)
def test_a_wrong_field_stops_the_start_with_its_name(
    monkeypatch: pytest.MonkeyPatch, library: None, change: dict[str, Any], words: str
) -> None:
    """threat: `ldap-unencrypted`"""
    with pytest.raises(ImproperlyConfigured) as refusal:
        read(monkeypatch, RIGHT | change)
    assert words in str(refusal.value)
    assert "hidden-secret" not in str(refusal.value)


def test_its_fields_are_for_this_kind_only(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {
        "id": "other",
        "issuer": "https://id.example.com",
        "client_id": "countersign",
        "client_secret": "hidden-secret",
        "start_tls": True,
    }
    with pytest.raises(ImproperlyConfigured, match="which is for the kind ldap"):
        read(monkeypatch, other)


def test_there_is_one_directory_at_most(monkeypatch: pytest.MonkeyPatch, library: None) -> None:
    with pytest.raises(ImproperlyConfigured, match="at most one provider of the kind ldap"):
        read(monkeypatch, RIGHT, {**RIGHT, "id": "other"})


def test_without_the_extra_the_start_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_server, "LIBRARY", "no_such_library")
    with pytest.raises(ImproperlyConfigured, match="uv sync --extra ldap"):
        read(monkeypatch, RIGHT)


def test_passwords_cannot_be_off(tmp_path: Path) -> None:
    """A directory's passwords go into the form that PASSWORD_SIGN_IN=0 takes away."""
    program = "from chatapp.server import ldap_server as found; found.LIBRARY = 'json'\n"
    program += "import chatapp.settings"
    environment = {
        "VAR_DIR": str(tmp_path),
        "SIGN_IN_PROVIDERS": json.dumps([RIGHT]),
        "PASSWORD_SIGN_IN": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "PASSWORD_SIGN_IN cannot be used" in done.stderr
    assert "hidden-secret" not in done.stderr
