"""What the assistant remembers about a person: short facts that they can see, change and delete."""

from typing import Self

from django.conf import settings
from django.db import models, transaction
from django.http import Http404

from chatapp.models.people.member import Member

MEMORY_CHARACTERS = 500
MEMORIES_PER_PERSON = 200


class MemoryFull(Exception):
    """This person has as many facts as are stored; one must be deleted first."""


class AlreadyRemembered(Exception):
    """Another fact of this person says the same."""


class Memory(models.Model):
    """One fact of one person. `tainted_by` names the service whose untrusted content the model
    had read when it asked to remember this."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memories"
    )
    text = models.CharField(max_length=MEMORY_CHARACTERS)
    tainted_by = models.CharField(max_length=100, blank=True)
    conversation = models.ForeignKey(
        "chatapp.Conversation", on_delete=models.SET_NULL, null=True, related_name="memories"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-changed_at", "-pk"]

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, person: Member, memory_id: int) -> Self:
        """Return this person's fact, or raise 404: the only way in which an id from outside is
        read."""
        found = cls.objects.filter(person=person, pk=memory_id).first()
        if found is None:
            raise Http404("No such fact.")
        return found

    @classmethod
    def keep(cls, person: Member, text: str, **where_from: object) -> tuple[Self, bool]:
        """Store a fact, and return whether it is new: the same text is stored once. Raise
        MemoryFull."""
        with transaction.atomic():
            _one_at_a_time(person.pk)
            known = cls.objects.filter(person=person, text__iexact=text).first()
            if known is not None:
                return known, False
            if cls.objects.filter(person=person).count() >= MEMORIES_PER_PERSON:
                raise MemoryFull
            return cls.objects.create(person=person, text=text, **where_from), True

    def change(self, text: str) -> bool:
        """Set the text, and return whether it changed. Raise AlreadyRemembered."""
        with transaction.atomic():
            _one_at_a_time(self.person_id)
            others = Memory.objects.filter(person=self.person_id).exclude(pk=self.pk)
            if others.filter(text__iexact=text).exists():
                raise AlreadyRemembered
            is_other = text != self.text
            self.text = text
            self.save(update_fields=["text", "changed_at"])
            return is_other


def _one_at_a_time(person_id: int) -> None:
    """Lock the person, so that concurrent changes neither double a fact nor exceed the limit."""
    Member.objects.select_for_update(no_key=True).get(pk=person_id)
