"""`manage.py sign_in_link NAME`: a link that signs a member in once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatapp.links import sign_in_link
from chatapp.models import Member


class Command(BaseCommand):
    help = "Print a link that signs a member in once, within a day. Earlier links stop working."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")

    def handle(self, *, name: str, **options: Any) -> None:
        member = Member.objects.filter(username=name).first()
        if member is None:
            raise CommandError(f"There is no member {name}. Add one: manage.py member add {name}")
        if not member.is_active:
            raise CommandError(f"{name} is switched off. An admin can switch members on again.")
        self.stdout.write(sign_in_link(member))
