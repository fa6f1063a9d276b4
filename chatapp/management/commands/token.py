"""`manage.py token`: create, list and revoke access tokens for programs."""

import argparse
import json
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.api import access_tokens
from chatapp.management.follow_turn import choose_member
from chatapp.models import AccessToken
from chatapp.people.refused import Refused
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

DAYS = 90


class Command(OperatorCommand):
    help = gettext_lazy(
        "Create, list or revoke access tokens. With a token, a program acts as a member."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--user", help=_("The member as whom the program acts."))
        common.add_argument("--json", action="store_true", dest="as_json")
        verbs = parser.add_subparsers(
            dest="verb", required=True, parser_class=argparse.ArgumentParser
        )
        create = verbs.add_parser(
            "create", parents=[common], help=_("Create a token, which is shown once.")
        )
        create.add_argument("name", metavar="NAME", help=_("what it is for"))
        create.add_argument(
            "--scope",
            action="append",
            required=True,
            choices=AccessToken.Scope.values,
            help=_("what the program can do; repeatable"),
        )
        create.add_argument(
            "--days", type=int, default=DAYS, metavar="N", help=_("days until it expires")
        )
        verbs.add_parser(
            "list", parents=[common], help=_("List all tokens, or those of one member.")
        )
        revoke = verbs.add_parser(
            "revoke", parents=[common], help=_("Revoke a token. It stops working at once.")
        )
        revoke.add_argument(
            "prefix", metavar="PREFIX", help=_("the letters and digits after `cs_`")
        )

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        match verb:
            case "create":
                self._create(options)
            case "list":
                self._list(options)
            case _:
                self._revoke(options)

    def _create(self, options: dict[str, Any]) -> None:
        if not 1 <= options["days"] <= access_tokens.MAX_DAYS:
            raise Failure(
                "refused",
                _("--days must be a number from 1 to %(most)s.") % {"most": access_tokens.MAX_DAYS},
            )
        field = AccessToken._meta.get_field("name")
        if not 0 < len(options["name"].strip()) <= (field.max_length or 0):
            raise Failure(
                "refused",
                _("NAME must have 1 to %(most)s characters.") % {"most": field.max_length},
            )
        person = choose_member(options["user"])
        try:
            token, text = access_tokens.create(
                person,
                name=options["name"].strip(),
                scopes=sorted(set(options["scope"])),
                days=options["days"],
            )
        except Refused as refused:
            raise Failure("refused", refused.sentence) from refused
        if options["as_json"]:
            self._print(_build_value(token) | {"token": text})
        else:
            self.stdout.write(
                _("%(token)s\nIt acts for %(person)s until %(date)s. It is shown only once.")
                % {"token": text, "person": person, "date": f"{token.expires_at:%Y-%m-%d}"}
            )

    def _list(self, options: dict[str, Any]) -> None:
        tokens = AccessToken.objects.select_related("person")
        if options["user"] is not None:
            tokens = tokens.filter(person=choose_member(options["user"]))
        if options["as_json"]:
            self._print([_build_value(token) for token in tokens])
            return
        for token in tokens:
            state = (
                _("no longer valid")
                if token.has_ended
                else _("until %(date)s") % {"date": f"{token.expires_at:%Y-%m-%d}"}
            )
            scopes = " ".join(token.scopes)
            self.stdout.write(
                f"cs_{token.prefix}…  {token.person}  {token.name}  {scopes}  {state}"
            )
        if not tokens:
            self.stdout.write(_("There are no tokens."))

    def _revoke(self, options: dict[str, Any]) -> None:
        prefix = options["prefix"].removeprefix("cs_").removesuffix("…")
        tokens = AccessToken.objects.select_related("person").filter(prefix=prefix)
        if options["user"] is not None:
            tokens = tokens.filter(person=choose_member(options["user"]))
        token = tokens.first()
        if token is None or not access_tokens.revoke(token):
            hint = _("To see the tokens, run `manage.py token list`.")
            raise Failure(
                "not_found",
                _("No token in use begins with cs_%(prefix)s.") % {"prefix": prefix},
                hint,
            )
        if options["as_json"]:
            token.refresh_from_db()
            self._print(_build_value(token))
        else:
            self.stdout.write(_("Revoked %(name)s.") % {"name": token.name})

    def _print(self, value: Any) -> None:
        self.stdout.write(json.dumps(value, ensure_ascii=False))


def _build_value(token: AccessToken) -> dict[str, Any]:
    last_used, revoked = token.last_used_at, token.revoked_at
    return {
        "id": str(token.pk),
        "name": token.name,
        "prefix": f"cs_{token.prefix}",
        "person": token.person.username,
        "scopes": token.scopes,
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat(),
        "last_used_at": last_used.isoformat() if last_used else None,
        "revoked_at": revoked.isoformat() if revoked else None,
    }
