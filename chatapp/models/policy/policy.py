"""Policy: rules and limits of admins, consents of people, and policy tests."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.http import Http404

from chatapp.models.conversations.conversation import Conversation
from chatapp.models.people.member import Member
from chatapp.models.turns.tool_call import ToolCall
from chatapp.permissions.risk_evidence import LEVELS
from mcpconfig.models import Service, ToolSetting

from .second_signature import SecondSignature

LEVEL_CHOICES = [(level, level) for level in LEVELS]


class PolicyRuleQuerySet(models.QuerySet["PolicyRule"]):
    def deny_tools(self) -> Self:
        """Filter the rules in force that deny tools for all arguments."""
        return self.filter(effect=PolicyRule.Effect.DENY, condition="", is_enabled=True)


class PolicyRule(models.Model):
    """A rule of an admin for some calls. An empty field is no restriction.

    `levels` are risks; `condition` is a condition on the arguments (`permissions.conditions`).
    """

    class Effect(models.TextChoices):
        ALLOW = "allow", "allow"
        ASK = "ask", "ask every time"
        DENY = "deny", "forbid"

    name = models.CharField(max_length=120, help_text="What people read about it in the log.")
    is_enabled = models.BooleanField("enabled", default=True)
    effect = models.CharField(max_length=5, choices=Effect.choices)
    service = models.ForeignKey(
        Service, on_delete=models.CASCADE, null=True, blank=True, help_text="Empty: all."
    )
    is_core = models.BooleanField(
        "only Countersign’s own tools", default=False, help_text="Those of no service."
    )
    tool = models.CharField(
        max_length=255, blank=True, help_text="The name that the service gives it. Empty: all."
    )
    groups = models.ManyToManyField(
        Group, blank=True, related_name="policy_rules", help_text="Empty: everybody."
    )
    levels = models.JSONField("risks", default=list, blank=True, help_text="Empty: all.")
    condition = models.CharField(
        max_length=1_000,
        blank=True,
        help_text='On the arguments, such as: amount < 100 and currency == "EUR"',
    )
    note = models.CharField(max_length=500, blank=True, help_text="Shown to people.")
    wants_typing = models.BooleanField(
        "typed confirmation", default=False, help_text="Whoever allows it types the tool's name."
    )
    second = models.ForeignKey(
        SecondSignature,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="rules",
        verbose_name="second signature",
        help_text="Of a rule that asks: somebody else has to sign, too.",
    )
    changed_at = models.DateTimeField(auto_now=True)

    objects = PolicyRuleQuerySet.as_manager()

    class Meta:
        verbose_name = "rule"
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class HousePolicy(models.Model):
    """The policy for everybody: one row."""

    class RunsUpTo(models.TextChoices):
        NOTHING = "", "nothing runs without a question"
        LOW = "low", "low"
        MEDIUM = "medium", "low and medium"

    class WidestConsent(models.TextChoices):
        ONCE = "once", "once only"
        CONVERSATION = "conversation", "for a chat"
        TOOL = "always", "for a tool, always"
        SERVICE = "service", "for a whole service, always"

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    asks_everything = models.BooleanField(
        "ask for everything", default=False, help_text="Whatever was allowed in advance."
    )
    runs_up_to = models.CharField(
        "runs by itself",
        max_length=6,
        choices=RunsUpTo.choices,
        blank=True,
        default=RunsUpTo.LOW,
        help_text="Up to this risk, for tools that an admin has confirmed.",
    )
    widest_consent = models.CharField(
        "people may allow",
        max_length=12,
        choices=WidestConsent.choices,
        default=WidestConsent.SERVICE,
    )
    consents_to_high = models.BooleanField(
        "also for high risks", default=False, help_text="Else high risks are allowed once only."
    )
    consent_days = models.PositiveIntegerField(
        "consents lapse after days",
        default=90,
        validators=[MinValueValidator(1)],
        help_text="Without use.",
    )
    types_high = models.BooleanField(
        "type to allow high risks",
        default=False,
        help_text="Whoever allows a high risk types the tool's name.",
    )
    allowed_hosts = models.TextField(
        "allowed hosts",
        blank=True,
        default="",
        db_default="",
        help_text="Hosts that you trust with data from chats, one a line: example.com, "
        "*.example.com for all hosts below it, @example.com for recipients of mail.",
    )
    lets_add_services = models.BooleanField(
        "people add services of their own",
        default=False,
        help_text="For themselves only, at public addresses, and their tools ask. What was added "
        "stays when this is switched off: see Services.",
    )
    adding_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="+",
        verbose_name="only these groups add services",
        help_text="None ticked: every member.",
    )
    medium_needs = models.ForeignKey(
        SecondSignature,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name="second signature for medium risks",
        help_text="No consent stands in for it; a rule that allows does.",
    )
    high_needs = models.ForeignKey(
        SecondSignature,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name="second signature for high risks",
        help_text="No consent stands in for it; a rule that allows does.",
    )

    class Meta:
        verbose_name = "policy for everybody"
        verbose_name_plural = "policy for everybody"

    def __str__(self) -> str:
        return "Policy for everybody"

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.id = 1
        super().save(*args, **kwargs)

    @classmethod
    def current(cls) -> Self:
        """Return the row, or the defaults if no admin has saved one."""
        needs = cls.objects.select_related("medium_needs", "high_needs")
        return needs.filter(pk=1).first() or cls()

    def lets_add(self, member: Member) -> bool:
        """Return whether this person may add services of their own."""
        if not self.lets_add_services:
            return False
        groups = set(self.adding_groups.values_list("pk", flat=True))
        return not groups or member.groups.filter(pk__in=groups).exists()

    def scopes_for(self, call: ToolCall) -> tuple[str, ...]:
        """Return the lasting ways in which a person may allow this call, narrowest first.

        There are none if a consent would not count: an admin's rule asks every time, the call needs
        a second signature, its tool is not confirmed, or the question is about this use alone.
        """
        approval = getattr(call, "approval", None)
        if approval is not None and (approval.second_id is not None or approval.is_once_only):
            return ()
        is_asked = call.rule is not None and call.rule.effect == PolicyRule.Effect.ASK
        is_high = call.risk == "high" and not self.consents_to_high
        if self.asks_everything or is_asked or is_high or not _is_confirmed(call):
            return ()
        return self.lasting_scopes()

    def lasting_scopes(self) -> tuple[str, ...]:
        """Return the scopes of consents that the policy accepts, narrowest first."""
        scopes = [scope.value for scope in Consent.Scope]
        widest = self.widest_consent
        return tuple(scopes[: scopes.index(widest) + 1]) if widest in scopes else ()


def _is_confirmed(call: ToolCall) -> bool:
    if call.service is None or call.definition is None:
        return False
    setting = ToolSetting.objects.filter(service=call.service, name=call.tool_name).first()
    return setting is not None and setting.confirmed_hash == call.definition.hash != ""


class ToolLimit(models.Model):
    """How often a person may use a tool per day (UTC) before each further use asks."""

    service = models.ForeignKey(
        Service, on_delete=models.CASCADE, null=True, blank=True, help_text="Empty: all."
    )
    is_core = models.BooleanField(
        "only Countersign’s own tools", default=False, help_text="Those of no service."
    )
    tool = models.CharField(max_length=255, blank=True, help_text="Empty: each of them.")
    group = models.ForeignKey(
        Group, on_delete=models.CASCADE, null=True, blank=True, help_text="Empty: everybody."
    )
    calls = models.PositiveIntegerField(
        "calls a day", help_text="Of one tool by one person. More ask each time."
    )

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.calls} a day of {self.tool or 'each tool'}"


class PolicyTest(models.Model):
    """A call with an expected decision, checked whenever the policy is saved."""

    class Mode(models.TextChoices):
        ACT = "act", "act"
        PLAN = "plan", "plan"

    class Expected(models.TextChoices):
        ALLOW = "allow", "run"
        ASK = "ask", "ask"
        TYPE = "type", "ask, and have the tool’s name typed"
        TWO = "two", "ask, and have two people sign"
        DENY = "deny", "be refused"

    name = models.CharField(max_length=120)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    service = models.ForeignKey(
        Service,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        help_text="Empty: Countersign’s own tools.",
    )
    tool = models.CharField(max_length=255)
    arguments = models.JSONField(default=dict, blank=True)
    mode = models.CharField(max_length=4, choices=Mode.choices, default=Mode.ACT)
    is_tainted = models.BooleanField(
        "after untrusted content",
        default=False,
        db_default=False,
        help_text="The call comes after the result of a service that is open to strangers.",
    )
    expected = models.CharField("must", max_length=5, choices=Expected.choices)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class Consent(models.Model):
    """What one person allowed in advance. `definitions` maps each tool to the hash that was
    covered: a new or changed tool asks again."""

    class Scope(models.TextChoices):
        CONVERSATION = "conversation", "in one chat"
        TOOL = "always", "this tool, always"
        SERVICE = "service", "this service, always"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="consents"
    )
    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="consents")
    endpoint = models.CharField(max_length=2_000)
    scope = models.CharField(max_length=12, choices=Scope.choices)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, null=True, related_name="consents"
    )
    definitions = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    uses = models.PositiveIntegerField(default=0)
    revoked_at = models.DateTimeField(null=True)
    lapse_noted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["person", "revoked_at"])]

    def __str__(self) -> str:
        return f"{self.service}: {self.get_scope_display()}"

    @classmethod
    def of(cls, person: Member, consent_id: uuid.UUID) -> Self:
        """Return a consent of this person, or raise 404."""
        found = cls.objects.select_related("service").filter(pk=consent_id, person=person).first()
        if found is None:
            raise Http404("No such consent.")
        return found
