"""The options of `mcp add` and `mcp set`, and the fields of the service form that they set.

The form is the one of the admin, so both validate the same. Secrets are read from environment
variables only.
"""

import argparse
import os
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from mcpconfig.models import IdentityProvider, Service
from mcpconfig.models.service import Colour

from .verbs import Options, make_failure

Authentication = Service.Authentication
Visibility = Service.Visibility
OnOff = argparse.BooleanOptionalAction
Fields = dict[str, Any]

# Options with the name and the value of a field of the service.
_DIRECT_FIELDS = (
    *("title", "description", "icon", "colour", "guidance", "url", "transport"),
    *("client_id", "is_enabled", "is_trusted", "is_open", "allows_private_addresses"),
    *("shares_tools", "starts_on", "new_tools", "allows_apps"),
)


def add_service_options(parser: CommandParser) -> None:
    _add_text_options(parser)
    _add_sign_in_options(parser)
    _add_audience_options(parser)
    _add_behaviour_options(parser)


def _add_text_options(parser: CommandParser) -> None:
    parser.add_argument("--title", help=_("the name shown to people"))
    parser.add_argument("--description", help=_("one or two sentences for people"))
    parser.add_argument("--guidance", metavar="TEXT", help=_("instructions for the assistant"))
    parser.add_argument("--icon", help=_("an emoji or a letter"))
    parser.add_argument("--colour", choices=Colour.values, help=_("the background of a letter"))


def _add_sign_in_options(parser: CommandParser) -> None:
    parser.add_argument("--transport", choices=Service.Transport.values, help=_("auto: detect it"))
    parser.add_argument(
        "--allow-private",
        dest="allows_private_addresses",
        action=OnOff,
        help=_("allow http:// and private addresses"),
    )
    sign_in = parser.add_mutually_exclusive_group()
    sign_in.add_argument(
        "--no-sign-in", action="store_true", help=_("no sign-in needed (the default)")
    )
    sign_in.add_argument("--bearer-env", metavar="VAR", help=_("the variable with the token"))
    sign_in.add_argument(
        "--header", metavar="NAME=VALUE", action="append", help=_("a header; repeatable")
    )
    sign_in.add_argument("--oauth", action="store_true", help=_("each person signs in"))
    sign_in.add_argument("--oauth-shared", action="store_true", help=_("one sign-in for everybody"))
    sign_in.add_argument(
        "--client-credentials", action="store_true", help=_("OAuth without a person")
    )
    sign_in.add_argument(
        "--company-sign-in", metavar="PROVIDER", help=_("people sign in at this identity provider")
    )
    parser.add_argument("--client-id", metavar="ID", help=_("for OAuth"))
    parser.add_argument(
        "--client-secret-env", metavar="VAR", help=_("the variable with the client secret")
    )
    parser.add_argument(
        "--scope", metavar="SCOPE", action="append", help=_("for OAuth; repeatable")
    )


def _add_audience_options(parser: CommandParser) -> None:
    audience = parser.add_mutually_exclusive_group()
    audience.add_argument(
        "--everyone", action="store_true", help=_("for all members (the default of mcp add)")
    )
    audience.add_argument(
        "--group", metavar="NAME", action="append", help=_("for members of this group; repeatable")
    )
    audience.add_argument(
        "--private", action="store_true", help=_("only for its owner, or for admins")
    )
    parser.add_argument("--owner", metavar="MEMBER", help=_("its owner; empty: the admins"))
    parser.add_argument(
        "--share-tools", dest="shares_tools", action=OnOff, help=_("others see its tools")
    )


def _add_behaviour_options(parser: CommandParser) -> None:
    parser.add_argument(
        "--trusted",
        dest="is_trusted",
        action=OnOff,
        help=_("its tool annotations can lower a risk"),
    )
    parser.add_argument(
        "--open", dest="is_open", action=OnOff, help=_("its results can have untrusted content")
    )
    parser.add_argument(
        "--on-at-first", dest="starts_on", action=OnOff, help=_("on for people who did not choose")
    )
    parser.add_argument(
        "--new-tools",
        choices=Service.NewTools.values,
        help=_("new and changed tools: wait for an admin (the default), or pass"),
    )
    parser.add_argument(
        "--retries", type=int, metavar="N", help=_("number of automatic retries; 0: none")
    )
    parser.add_argument(
        "--allow-apps", dest="allows_apps", action=OnOff, help=_("show the apps of its tools")
    )
    parser.add_argument(
        "--app-origin",
        metavar="ORIGIN",
        action="append",
        help=_("https://host that its apps can reach; repeatable"),
    )
    parser.add_argument("--enabled", dest="is_enabled", action=OnOff, help=_("whether it is on"))


def build_fields(options: Options) -> Fields:
    """Return the fields of the form that the options set. Other fields are unchanged."""
    values = {name: options.get(name) for name in _DIRECT_FIELDS}
    fields = {name: value for name, value in values.items() if value is not None}
    if options["scope"] is not None:
        fields["scopes"] = " ".join(options["scope"])
    if options["app_origin"] is not None:
        fields["app_origins"] = "\n".join(options["app_origin"])
    if options["owner"] is not None:
        fields["owner"] = _get_owner_id(options["owner"])
    return (
        fields
        | _build_sign_in_fields(options)
        | _build_audience_fields(options)
        | _build_retry_fields(options)
    )


def _build_sign_in_fields(options: Options) -> Fields:
    by_method = {
        Authentication.NONE: options["no_sign_in"],
        Authentication.BEARER: options["bearer_env"],
        Authentication.HEADERS: options["header"],
        Authentication.OAUTH_USER: options["oauth"],
        Authentication.OAUTH_SHARED: options["oauth_shared"],
        Authentication.CLIENT_CREDENTIALS: options["client_credentials"],
        Authentication.COMPANY: options["company_sign_in"],
    }
    chosen = [method for method, option in by_method.items() if option]
    fields: Fields = {"authentication": chosen[0]} if chosen else {}
    if options["company_sign_in"]:
        fields["identity_provider"] = get_identity_provider(options["company_sign_in"]).pk
    if options["bearer_env"]:
        fields["bearer"] = read_environment(options["bearer_env"])
    if options["client_secret_env"]:
        fields["client_secret"] = read_environment(options["client_secret_env"])
    if options["header"]:
        fields["headers"] = "\n".join(_parse_header(text) for text in options["header"])
    return fields


def get_identity_provider(name: str) -> IdentityProvider:
    provider = IdentityProvider.objects.filter(name=name).first()
    if provider is None:
        raise make_failure(
            _("There is no identity provider “%(name)s”.") % {"name": name},
            _("See: %(command)s") % {"command": "manage.py mcp identity-providers"},
        )
    return provider


def _parse_header(text: str) -> str:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or "\n" in text:
        raise make_failure(_("A header has the form NAME=VALUE."))
    return f"{name}: {value}"


def read_environment(variable: str) -> str:
    if not os.environ.get(variable):
        raise make_failure(
            _("The environment variable %(variable)s is not set.") % {"variable": variable}
        )
    return os.environ[variable]


def _build_audience_fields(options: Options) -> Fields:
    if options["group"]:
        groups = [get_group_id(name) for name in options["group"]]
        return {"visibility": Visibility.GROUPS, "groups": groups}
    if options["private"]:
        return {"visibility": Visibility.PRIVATE}
    return {"visibility": Visibility.EVERYONE} if options["everyone"] else {}


def get_group_id(name: str) -> int:
    group = Group.objects.filter(name=name).first()
    if group is None:
        raise make_failure(
            _("There is no group “%(name)s”.") % {"name": name}, _("Create it in the admin.")
        )
    return group.pk


def _get_owner_id(name: str) -> int | None:
    if not name:
        return None
    owner = get_user_model().objects.filter(username=name).first()
    if owner is None:
        raise make_failure(
            _("There is no member “%(name)s”.") % {"name": name},
            _("Add one: %(command)s") % {"command": "manage.py member add NAME"},
        )
    return int(owner.pk)


def _build_retry_fields(options: Options) -> Fields:
    match options["retries"]:
        case None:
            return {}
        case 0:
            return {"reconnects": False}
        case most_retries:
            return {"reconnects": True, "most_retries": most_retries}
