"""A directory in SIGN_IN_PROVIDERS, for tests."""

from typing import Any

from chatapp.server.ldap_server import LDAPServer
from chatapp.server.sign_in_providers import SignInProvider, build_allauth_settings
from tests.peers.ldap_directory import GROUPS, PEOPLE, READER, READER_PASSWORD

SERVER = {
    "addresses": ("ldap://127.0.0.1:1",),
    "bind_dn": READER,
    "bind_password": READER_PASSWORD,
    "user_base": PEOPLE,
    "group_base": GROUPS,
    "timeout_seconds": 5.0,
}


def configure(settings: Any, server: dict[str, Any], **more: Any) -> SignInProvider:
    found = SignInProvider(
        **{
            "id": "company",
            "name": "Company",
            "kind": "ldap",
            "creates_accounts": True,
            "ldap": LDAPServer(**{**SERVER, **server}),
            **more,
        }
    )
    settings.SIGN_IN_PROVIDERS = (found,)
    settings.SOCIALACCOUNT_PROVIDERS = build_allauth_settings((found,))
    return found
