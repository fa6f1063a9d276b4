"""`manage.py token`: create, list and revoke access tokens for programs."""

import argparse
import json
from typing import Any

from chatapp.api import access_tokens
from chatapp.management.follow_turn import choose_member
from chatapp.models import AccessToken
from chatapp.people.refused import Refused
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand

DAYS = 90


class Command(OperatorCommand):
    help = "Make, list or revoke access tokens, with which programs act for a member."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--user", help="The member for whom the program acts.")
        common.add_argument("--json", action="store_true", dest="as_json")
        verbs = parser.add_subparsers(
            dest="verb", required=True, parser_class=argparse.ArgumentParser
        )
        create = verbs.add_parser("create", parents=[common], help="A new token, shown once.")
        create.add_argument("name", metavar="NAME", help="what it is for")
        create.add_argument(
            "--scope",
            action="append",
            required=True,
            choices=AccessToken.Scope.values,
            help="what its program may do; may be given several times",
        )
        create.add_argument(
            "--days", type=int, default=DAYS, metavar="N", help="how long it counts"
        )
        verbs.add_parser("list", parents=[common], help="All tokens, or those of one member.")
        revoke = verbs.add_parser("revoke", parents=[common], help="From now on it opens nothing.")
        revoke.add_argument("prefix", metavar="PREFIX", help="the letters and digits after `cs_`")

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
            raise Failure("refused", f"--days takes a number from 1 to {access_tokens.MAX_DAYS}.")
        field = AccessToken._meta.get_field("name")
        if not 0 < len(options["name"].strip()) <= (field.max_length or 0):
            raise Failure("refused", f"NAME takes 1 to {field.max_length} characters.")
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
                f"{text}\nIt acts for {person} until {token.expires_at:%Y-%m-%d} "
                "and is shown only this once."
            )

    def _list(self, options: dict[str, Any]) -> None:
        tokens = AccessToken.objects.select_related("person")
        if options["user"] is not None:
            tokens = tokens.filter(person=choose_member(options["user"]))
        if options["as_json"]:
            self._print([_build_value(token) for token in tokens])
            return
        for token in tokens:
            state = "ended" if token.has_ended else f"until {token.expires_at:%Y-%m-%d}"
            scopes = " ".join(token.scopes)
            self.stdout.write(
                f"cs_{token.prefix}…  {token.person}  {token.name}  {scopes}  {state}"
            )
        if not tokens:
            self.stdout.write("There are no tokens.")

    def _revoke(self, options: dict[str, Any]) -> None:
        prefix = options["prefix"].removeprefix("cs_").removesuffix("…")
        tokens = AccessToken.objects.select_related("person").filter(prefix=prefix)
        if options["user"] is not None:
            tokens = tokens.filter(person=choose_member(options["user"]))
        token = tokens.first()
        if token is None or not access_tokens.revoke(token):
            hint = "`manage.py token list` tells which there are."
            raise Failure("not_found", f"No token in use begins with cs_{prefix}.", hint)
        if options["as_json"]:
            token.refresh_from_db()
            self._print(_build_value(token))
        else:
            self.stdout.write(f"Revoked {token.name}.")

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
