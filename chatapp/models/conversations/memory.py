"""What the assistant remembers for a person: short facts that they see, change and delete."""

from typing import Self

from django.conf import settings
from django.db import models, transaction
from django.http import Http404

from .member import Member

MEMORY_CHARACTERS = 500
MEMORIES_PER_PERSON = 200


class MemoryFull(Exception):
    """This person has as many facts as are kept; one has to go first."""


class AlreadyRemembered(Exception):
    """Another fact of this person says the same."""


class Memory(models.Model):
    """One fact, its person's alone. `tainted_by` names the service whose words, perhaps of
    strangers, the model had read when it asked to remember this."""

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
        """This person's fact, or 404: the only way that an id from outside is read."""
        found = cls.objects.filter(person=person, pk=memory_id).first()
        if found is None:
            raise Http404("No such fact.")
        return found

    @classmethod
    def keep(cls, person: Member, text: str, **where_from: object) -> tuple[Self, bool]:
        """Keep a fact, and whether it is new: the same words are kept once. Raises MemoryFull."""
        with transaction.atomic():
            _one_at_a_time(person.pk)
            known = cls.objects.filter(person=person, text__iexact=text).first()
            if known is not None:
                return known, False
            if cls.objects.filter(person=person).count() >= MEMORIES_PER_PERSON:
                raise MemoryFull
            return cls.objects.create(person=person, text=text, **where_from), True

    def change(self, text: str) -> bool:
        """Say it in these words, and whether they are others. Raises AlreadyRemembered."""
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
    """Whoever changes facts of this person waits here, so that none is doubled and their number
    holds."""
    Member.objects.select_for_update(no_key=True).get(pk=person_id)
