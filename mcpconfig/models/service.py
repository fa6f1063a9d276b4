"""Services: what an admin configured about one MCP server, and what was learned of it."""

from django.db import models


class Service(models.Model):
    """One configured MCP server."""

    class Transport(models.TextChoices):
        AUTO = "auto", "Find out"
        STREAMABLE_HTTP = "streamable-http", "Streamable HTTP"
        SSE = "sse", "HTTP+SSE"

    name = models.SlugField(max_length=60, unique=True)
    title = models.CharField(max_length=100, blank=True)
    url = models.CharField(max_length=2000)
    transport = models.CharField(max_length=15, choices=Transport.choices, default=Transport.AUTO)
    is_enabled = models.BooleanField(default=True)
    allows_private_addresses = models.BooleanField(default=False)
    is_trusted = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.title or self.name
