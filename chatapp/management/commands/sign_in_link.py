"""`manage.py sign_in_link NAME`: print a link that signs a member in once."""

from argparse import ArgumentParser
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.accounts import entries
from chatapp.audit.audit_log import OPERATOR
from chatapp.models import Member
from chatapp.people.sign_in_links import make_sign_in_link
from mcpconfig.management.failures import Failure
from mcpconfig.management.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = gettext_lazy(
        "Print a link that signs a member in once, within a day. Earlier links stop working."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")

    def handle(self, *, name: str, **options: Any) -> None:
        member = Member.objects.filter(username=name).first()
        if member is None:
            hint = _("Add one: %(command)s") % {"command": f"manage.py member add {name}"}
            raise Failure("not_found", _("There is no member %(name)s.") % {"name": name}, hint)
        if not member.is_active:
            hint = _("An admin can turn the account on again.")
            raise Failure("refused", _("The account of %(name)s is off.") % {"name": name}, hint)
        with transaction.atomic():
            link = make_sign_in_link(member)
            entries.write_sign_in_link(member, OPERATOR)
        self.stdout.write(link)
