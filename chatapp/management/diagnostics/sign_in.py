"""Checks of the LDAP directory that people sign in with. No password of a person is checked."""

from typing import TYPE_CHECKING

from django.conf import settings as values
from django.utils.translation import gettext as _

from chatapp.server.ldap_server import LDAPServer
from chatapp.server.sign_in_providers import find_ldap_provider
from mcpconfig.values.lazy_module import LazyModule

from .findings import Finding, report_good, report_wrong

if TYPE_CHECKING:
    from chatapp.accounts import ldap_sign_in
else:
    ldap_sign_in = LazyModule("chatapp.accounts.ldap_sign_in")

SUBJECT = "sign-in"


def check_directory() -> list[Finding]:
    """Check that the directory accepts this server, and has the places of people and groups."""
    provider = find_ldap_provider(values.SIGN_IN_PROVIDERS)
    if provider is None or provider.ldap is None:
        return []
    return [_check_address(provider.name, provider.ldap, each) for each in provider.ldap.addresses]


def _check_address(name: str, server: LDAPServer, address: str) -> Finding:
    reason = ldap_sign_in.find_problem(server, address)
    facts = {"name": name, "address": address, "reason": reason}
    if not reason:
        return report_good(SUBJECT, _("%(name)s accepts this server at %(address)s.") % facts)
    hint = _("Check the provider of the kind ldap in SIGN_IN_PROVIDERS, and its certificate.")
    problem = _("%(name)s can’t be used at %(address)s (%(reason)s).")
    return report_wrong(SUBJECT, problem % facts, hint)
