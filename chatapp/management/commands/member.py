"""`manage.py member add NAME`: add a member with a password or a sign-in link.
`manage.py member remove-second-factor NAME`: let in somebody who lost theirs."""

import os
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.accounts.second_factor import remove_second_factor
from chatapp.audit.audit_log import OPERATOR
from chatapp.models import Member
from chatapp.people.sign_in_links import make_sign_in_link
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = gettext_lazy("Add a member, or remove the second factor of one.")

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        remove = acts.add_parser(
            "remove-second-factor", help=_("the app, codes and passkeys of a member; ends sessions")
        )
        remove.add_argument("name", metavar="NAME")
        add = acts.add_parser("add", help=_("a new member"))
        add.add_argument("name", metavar="NAME")
        add.add_argument("--password-env", metavar="VAR", help=_("the variable with the password"))
        add.add_argument("--admin", action="store_true", help=_("make the member an admin"))

    def handle(self, *, act: str, name: str, **options: Any) -> None:
        if act == "add":
            self._add(name, options["password_env"], options["admin"])
        else:
            self._remove_second_factor(name)

    def _remove_second_factor(self, name: str) -> None:
        member = Member.objects.filter(username=name).first()
        if member is None:
            raise Failure("not_found", _("There is no member %(name)s.") % {"name": name})
        if remove_second_factor(member, OPERATOR):
            self.stdout.write(_("Removed the second factor of %(name)s.") % {"name": name})
        else:
            self.stdout.write(_("%(name)s has no second factor.") % {"name": name})

    def _add(self, name: str, password_env: str | None, admin: bool) -> None:
        member = Member(username=name, is_staff=admin, is_superuser=admin)
        password = None if password_env is None else os.environ.get(password_env, "")
        if password == "":
            raise Failure(
                "configuration",
                _("The variable %(variable)s is not set.") % {"variable": password_env},
            )
        member.set_password(password)
        try:
            member.full_clean()
            if password is not None:
                validate_password(password, member)
        except ValidationError as error:
            raise Failure("refused", " ".join(error.messages)) from error
        member.save()
        self.stdout.write(_("Added %(name)s.") % {"name": name})
        if password is None:
            self.stdout.write(_("Sign-in link: %(link)s") % {"link": make_sign_in_link(member)})
