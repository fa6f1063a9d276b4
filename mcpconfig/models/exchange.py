"""Exchanges: the HTTP requests of operations and their answers, kept for a while for the trace."""

from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcpconfig.models.service import Service


class Exchange(models.Model):
    """One HTTP request and its answer. Secrets are masked and bodies cut before they come here.

    Every request is ours: what a service sends by itself comes inside an answer, and `heard` lists
    it. `round_id` holds the operations together that belong to one tool call.
    """

    service = models.ForeignKey(
        Service, verbose_name=_("service"), on_delete=models.CASCADE, related_name="exchanges"
    )
    operation = models.CharField(_("operation"), max_length=40)
    operation_id = models.UUIDField(_("operation id"))
    round_id = models.CharField(_("round id"), max_length=64, blank=True)
    tool = models.CharField(_("tool"), max_length=255, blank=True, default="", db_default="")
    # No foreign key: a trace stays as long as others when its person is deleted.
    person_id = models.BigIntegerField(_("member ID"), null=True)
    method = models.CharField(_("method"), max_length=10)
    url = models.TextField(_("URL"), blank=True)
    kind = models.CharField(
        _("kind"),
        max_length=12,
        blank=True,
        help_text=_("The kind of message: request, response or notification."),
    )
    rpc_method = models.CharField(_("RPC method"), max_length=100, blank=True)
    rpc_id = models.CharField(_("message ID"), max_length=100, blank=True)
    era = models.CharField(_("MCP protocol"), max_length=20, blank=True)
    attempt = models.PositiveSmallIntegerField(_("attempt"), default=1)
    status = models.PositiveSmallIntegerField(_("status"), null=True)
    request_headers = models.JSONField(_("request headers"), default=dict)
    request_body = models.TextField(_("request body"), blank=True)
    request_bytes = models.PositiveIntegerField(_("request bytes"), default=0)
    response_headers = models.JSONField(_("response headers"), default=dict)
    response_body = models.TextField(_("response body"), blank=True)
    response_bytes = models.PositiveBigIntegerField(_("response (bytes)"), default=0)
    heard = models.JSONField(_("messages received"), default=list)
    heard_count = models.PositiveIntegerField(_("number of messages received"), default=0)
    duration_ms = models.PositiveIntegerField(_("duration (ms)"), default=0)
    started_at = models.DateTimeField(_("started at"), null=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("exchange")
        verbose_name_plural = _("exchanges")
        ordering = ["-pk"]
        indexes = [
            models.Index(fields=["service", "-id"]),
            models.Index(fields=["operation_id"]),
            models.Index(fields=["created_at"], name="exchanges_by_date"),
            models.Index(fields=["person_id", "-id"], name="exchanges_of_a_person"),
            models.Index(fields=["tool", "-id"], name="exchanges_of_a_tool"),
            models.Index(
                fields=["round_id"],
                condition=~models.Q(round_id=""),
                name="exchanges_of_a_call",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rpc_method or self.method} → {self.status or gettext('no response')}"
