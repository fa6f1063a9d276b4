"""Exchanges: the HTTP requests of operations and their answers, kept for a while for the trace."""

from django.db import models

from mcpconfig.models.service import Service


class Exchange(models.Model):
    """One HTTP request and its answer. Secrets are masked and bodies cut before they come here.

    Every request is ours: what a service sends by itself comes inside an answer, and `heard` lists
    it. `round_id` holds the operations together that belong to one tool call.
    """

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="exchanges")
    operation = models.CharField(max_length=40)
    operation_id = models.UUIDField()
    round_id = models.CharField(max_length=64, blank=True)
    method = models.CharField(max_length=10)
    url = models.TextField("URL", blank=True)
    kind = models.CharField(
        max_length=12, blank=True, help_text="Of the message sent: request, response, notification."
    )
    rpc_method = models.CharField(max_length=100, blank=True)
    rpc_id = models.CharField("message id", max_length=100, blank=True)
    era = models.CharField(max_length=20, blank=True)
    attempt = models.PositiveSmallIntegerField(default=1)
    status = models.PositiveSmallIntegerField(null=True)
    request_headers = models.JSONField(default=dict)
    request_body = models.TextField(blank=True)
    request_bytes = models.PositiveIntegerField(default=0)
    response_headers = models.JSONField(default=dict)
    response_body = models.TextField(blank=True)
    response_bytes = models.PositiveBigIntegerField(default=0)
    heard = models.JSONField("messages received", default=list)
    heard_count = models.PositiveIntegerField(default=0)
    duration_ms = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["service", "-id"]),
            models.Index(fields=["operation_id"]),
        ]

    def __str__(self) -> str:
        return f"{self.rpc_method or self.method} → {self.status or 'no answer'}"
