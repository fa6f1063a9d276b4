"""Policy: rules and limits of admins, consents of people, and policy tests."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.validators import MinValueValidator
from django.db import models
from django.http import Http404
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatapp.models.conversations.conversation import Conversation
from chatapp.models.people.member import Member
from chatapp.models.turns.tool_call import ToolCall
from chatapp.permissions.risk_evidence import LEVELS
from mcpconfig.models import Service, ToolSetting

from .second_signature import SecondSignature

LEVEL_LABELS = {"low": _("low"), "medium": _("medium"), "high": _("high")}
OPINION_HELP = _(
    "It reads a tool’s definition and may raise the tool’s risk, never lower it. Admins ask for an "
    "opinion where they confirm tools."
)
LEVEL_CHOICES = [(level, LEVEL_LABELS[level]) for level in LEVELS]


class PolicyRuleQuerySet(models.QuerySet["PolicyRule"]):
    def deny_tools(self) -> Self:
        """Filter the rules in force that deny tools for all arguments."""
        return self.filter(effect=PolicyRule.Effect.DENY, condition="", is_enabled=True)


class PolicyRule(models.Model):
    """A rule of an admin for some calls. An empty field is no restriction.

    `levels` are risks; `condition` is a condition on the arguments (`permissions.conditions`).
    """

    class Effect(models.TextChoices):
        ALLOW = "allow", _("allow")
        ASK = "ask", _("ask every time")
        DENY = "deny", _("refuse")

    name = models.CharField(_("name"), max_length=120, help_text=_("Shown in the activity log."))
    is_enabled = models.BooleanField(_("enabled"), default=True)
    effect = models.CharField(_("effect"), max_length=5, choices=Effect.choices)
    service = models.ForeignKey(
        Service,
        verbose_name=_("service"),
        on_delete=models.CASCADE,
        null=True,
        blank=True,
    )
    is_core = models.BooleanField(
        _("only built-in tools"),
        default=False,
        help_text=_("Countersign’s own tools. Leave the service unset."),
    )
    tool = models.CharField(
        _("tool"),
        max_length=255,
        blank=True,
        help_text=_(
            "The tool’s name without its service, such as delete_note. If empty, all tools."
        ),
    )
    groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="policy_rules",
        help_text=_("If none is ticked, every member."),
        verbose_name=_("groups"),
    )
    levels = models.JSONField(
        _("risks"), default=list, blank=True, help_text=_("If empty, all risks.")
    )
    condition = models.CharField(
        _("condition"),
        max_length=1_000,
        blank=True,
        help_text=_('A condition on the arguments, such as: amount < 100 and currency == "EUR"'),
    )
    note = models.CharField(
        _("note"), max_length=500, blank=True, help_text=_("Shown to the member who uses the tool.")
    )
    wants_typing = models.BooleanField(
        _("typed confirmation"),
        default=False,
        help_text=_("To approve the call, the member types the tool’s name."),
    )
    second = models.ForeignKey(
        SecondSignature,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="rules",
        verbose_name=_("second approval"),
        help_text=_("Who must also approve the call."),
    )
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)

    objects = PolicyRuleQuerySet.as_manager()

    class Meta:
        verbose_name = _("rule")
        verbose_name_plural = _("rules")
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class HousePolicy(models.Model):
    """The policy for everybody: one row."""

    class RunsUpTo(models.TextChoices):
        NOTHING = "", _("no tools")
        LOW = "low", _("low-risk tools")
        MEDIUM = "medium", _("low- and medium-risk tools")

    class WidestConsent(models.TextChoices):
        ONCE = "once", _("none: each call is approved separately")
        CONVERSATION = "conversation", _("one tool in one chat")
        TOOL = "always", _("one tool in all chats")
        SERVICE = "service", _("a whole service in all chats")

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    asks_everything = models.BooleanField(
        _("ask for everything"),
        default=False,
        help_text=_(
            "Every call needs approval, even if a rule or a member’s permission allows it."
        ),
    )
    runs_up_to = models.CharField(
        _("tools that run without approval"),
        max_length=6,
        choices=RunsUpTo.choices,
        blank=True,
        default=RunsUpTo.LOW,
        help_text=_("Only if they are confirmed."),
    )
    widest_consent = models.CharField(
        _("widest permission members may give"),
        max_length=12,
        choices=WidestConsent.choices,
        default=WidestConsent.SERVICE,
    )
    consents_to_high = models.BooleanField(
        _("also high-risk calls"),
        default=False,
        help_text=_("If off, members approve each high-risk call separately."),
    )
    consent_days = models.PositiveIntegerField(
        _("permissions expire after (days without use)"),
        default=90,
        validators=[MinValueValidator(1)],
    )
    types_high = models.BooleanField(
        _("typed confirmation for high-risk calls"),
        default=False,
        help_text=_("To approve a high-risk call, the member types the tool’s name."),
    )
    allowed_hosts = models.TextField(
        _("allowed hosts"),
        blank=True,
        default="",
        db_default="",
        help_text=_(
            "Hosts that you trust with chat data, one per line: example.com, "
            "*.example.com for its subdomains, @example.com for mail recipients."
        ),
    )
    opinion_model = models.CharField(
        _("model for second opinions"),
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text=OPINION_HELP,
    )
    opinions_for_new = models.BooleanField(
        _("second opinion on each new definition"),
        default=False,
        db_default=False,
        help_text=_(
            "New and changed tools are judged automatically, at most 200 a day. The usage is "
            "counted for the admin who switched this on."
        ),
    )
    opinions_paid_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
    )
    check_each = models.PositiveIntegerField(
        _("attention check after every … approvals"),
        null=True,
        blank=True,
        validators=[MinValueValidator(5)],
        help_text=_(
            "On average. A check looks like a request for approval, but nothing is ever sent, and "
            "the member is told right after the answer. At most one per member and week. Members "
            "can read on their permissions page that there are checks. If empty, there are none."
        ),
    )
    lets_add_services = models.BooleanField(
        _("members may add their own services"),
        default=False,
        help_text=_(
            "For themselves only, at public addresses. Each tool needs approval every time "
            "until an admin confirms it. If you switch this off, services that members have added "
            "stay available to them."
        ),
    )
    adding_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="+",
        verbose_name=_("groups that may add services"),
        help_text=_("If none is ticked, every member may add services."),
    )
    medium_needs = models.ForeignKey(
        SecondSignature,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("second approval for medium-risk calls"),
        help_text=_(
            "Required even if the member has allowed the tool in advance. If a rule allows the "
            "call, a second approval is required only when something else makes the call need "
            "approval, such as untrusted content."
        ),
    )
    high_needs = models.ForeignKey(
        SecondSignature,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("second approval for high-risk calls"),
        help_text=_(
            "Required even if the member has allowed the tool in advance. If a rule allows the "
            "call, a second approval is required only when something else makes the call need "
            "approval, such as untrusted content."
        ),
    )
    changes_need_second = models.BooleanField(
        _("policy changes need a second admin"),
        default=False,
        db_default=False,
        help_text=_(
            "Rules, limits, second-approval requirements and this page then change only after "
            "another admin with the policy right approves."
        ),
    )

    class Meta:
        verbose_name = _("policy for everybody")
        verbose_name_plural = _("policy for everybody")

    def __str__(self) -> str:
        return gettext("Policy for everybody")

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
        Service,
        verbose_name=_("service"),
        on_delete=models.CASCADE,
        null=True,
        blank=True,
    )
    is_core = models.BooleanField(
        _("only built-in tools"),
        default=False,
        help_text=_("Countersign’s own tools. Leave the service unset."),
    )
    tool = models.CharField(
        _("tool"),
        max_length=255,
        blank=True,
        help_text=_(
            "The tool’s name without its service, such as delete_note. If empty, the limit "
            "applies to every tool, each counted separately."
        ),
    )
    group = models.ForeignKey(
        Group,
        verbose_name=_("group"),
        on_delete=models.CASCADE,
        null=True,
        blank=True,
    )
    calls = models.PositiveIntegerField(
        _("calls per day (UTC)"), help_text=_("Per tool and member. Further calls need approval.")
    )

    class Meta:
        verbose_name = _("tool limit")
        verbose_name_plural = _("tool limits")
        ordering = ["pk"]

    def __str__(self) -> str:
        values = {"calls": self.calls, "tool": self.tool}
        if self.tool:
            return gettext("%(tool)s: %(calls)s per day") % values
        return gettext("each tool: %(calls)s per day") % values


class PolicyTest(models.Model):
    """A call with an expected decision, checked whenever the policy is saved."""

    class Mode(models.TextChoices):
        ACT = "act", _("Act mode")
        PLAN = "plan", _("Plan mode")

    class Expected(models.TextChoices):
        ALLOW = "allow", _("runs without asking")
        ASK = "ask", _("needs approval")
        TYPE = "type", _("needs approval with typed confirmation")
        TWO = "two", _("needs a second approval")
        DENY = "deny", _("is refused")

    name = models.CharField(_("name"), max_length=120)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, verbose_name=_("member"), on_delete=models.CASCADE
    )
    service = models.ForeignKey(
        Service,
        verbose_name=_("service"),
        on_delete=models.CASCADE,
        null=True,
        blank=True,
    )
    tool = models.CharField(
        _("tool"),
        max_length=255,
        help_text=_("The tool’s name without its service, such as delete_note."),
    )
    arguments = models.JSONField(_("arguments"), default=dict, blank=True)
    mode = models.CharField(
        _("mode"),
        max_length=4,
        choices=Mode.choices,
        default=Mode.ACT,
        help_text=_("In plan mode, only read-only tools run."),
    )
    is_tainted = models.BooleanField(
        _("after untrusted content"),
        default=False,
        db_default=False,
        help_text=_("The call follows a result with untrusted content."),
    )
    expected = models.CharField(_("expected decision"), max_length=5, choices=Expected.choices)

    class Meta:
        verbose_name = _("policy test")
        verbose_name_plural = _("policy tests")
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name


class Consent(models.Model):
    """What one person allowed in advance. `definitions` maps each tool to the hash that was
    covered: a new or changed tool asks again."""

    class Scope(models.TextChoices):
        CONVERSATION = "conversation", _("in one chat")
        TOOL = "always", _("this tool, always")
        SERVICE = "service", _("this service, always")

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
