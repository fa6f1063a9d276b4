"""Exchanges: the HTTP requests of operations and their answers, kept for a while for the trace."""

from django.db import models

from .service import Service


class Exchange(models.Model):
    """One HTTP request and its answer. Secrets are masked and bodies cut before they come here."""

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="exchanges")
    operation = models.CharField(max_length=40)
    operation_id = models.UUIDField()
    method = models.CharField(max_length=10)
    rpc_method = models.CharField(max_length=100, blank=True)
    status = models.PositiveSmallIntegerField(null=True)
    request_headers = models.JSONField(default=dict)
    request_body = models.TextField(blank=True)
    request_bytes = models.PositiveIntegerField(default=0)
    response_headers = models.JSONField(default=dict)
    response_body = models.TextField(blank=True)
    response_bytes = models.PositiveBigIntegerField(default=0)
    duration_ms = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["service", "-id"])]

    def __str__(self) -> str:
        return f"{self.rpc_method or self.method} → {self.status or 'no answer'}"
