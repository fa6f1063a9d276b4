"""What a person tells the assistant about a service or a tool, in all of their chats."""

from django.conf import settings
from django.db import models

from mcpconfig.models import Service
from mcpconfig.models.service import MAX_GUIDANCE_CHARACTERS


class Guidance(models.Model):
    """One text of one person; `tool` is empty where it is about the whole service."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="guidance"
    )
    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="+")
    tool = models.CharField(max_length=255, blank=True)
    text = models.TextField(max_length=MAX_GUIDANCE_CHARACTERS)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["person", "service", "tool"], name="one_guidance_of_a_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.person} on {self.tool or self.service}"
