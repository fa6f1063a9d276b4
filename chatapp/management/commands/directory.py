"""`manage.py directory`: create, list and revoke the tokens with which a company's directory adds
and deactivates members over SCIM."""

import argparse
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.accounts import directory
from chatapp.models import DirectoryToken
from chatapp.server.address import base_url
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

MOST = 60


class Command(OperatorCommand):
    help = gettext_lazy(
        "Create, list or revoke tokens for SCIM, with which a directory adds and deactivates "
        "members."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(
            dest="verb", required=True, parser_class=argparse.ArgumentParser
        )
        create = verbs.add_parser("create-token", help=_("Create a token, which is shown once."))
        create.add_argument("name", metavar="NAME", help=_("the directory, such as Entra"))
        verbs.add_parser("list-tokens", help=_("List all tokens."))
        revoke = verbs.add_parser(
            "revoke-token", help=_("Revoke a token. It stops working at once.")
        )
        revoke.add_argument(
            "prefix", metavar="PREFIX", help=_("the letters and digits after `scim_`")
        )

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "create-token":
                self._create(options["name"].strip())
            case "list-tokens":
                self._list()
            case _:
                self._revoke(options["prefix"].removeprefix("scim_").removesuffix("…"))

    def _create(self, name: str) -> None:
        if not 0 < len(name) <= MOST or not name.isprintable():
            raise Failure("refused", _("NAME must have 1 to %(most)s characters.") % {"most": MOST})
        _token, text = directory.create_token(name)
        self.stdout.write(
            _("%(token)s\nThe address for the directory is %(address)s. The token is shown once.")
            % {"token": text, "address": f"{base_url()}/scim/v2"}
        )

    def _list(self) -> None:
        tokens = DirectoryToken.objects.all()
        for token in tokens:
            state = _("revoked") if token.revoked_at else _("in use")
            self.stdout.write(f"scim_{token.prefix}…  {token.name}  {state}")
        if not tokens:
            self.stdout.write(_("There are no tokens."))

    def _revoke(self, prefix: str) -> None:
        token = DirectoryToken.objects.filter(prefix=prefix).first()
        if token is None or not directory.revoke_token(token):
            raise Failure(
                "not_found",
                _("No token in use begins with scim_%(prefix)s.") % {"prefix": prefix},
                _("To see the tokens, run `manage.py directory list-tokens`."),
            )
        self.stdout.write(_("Revoked %(name)s.") % {"name": token.name})
