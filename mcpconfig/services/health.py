"""The health of all services: failures, unconfirmed tools and missing sign-ins."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q
from django.utils.translation import gettext as _

from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.oauth.sign_in_admin import SignInCount, count_sign_ins

Authentication = Service.Authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of one service. `sign_ins_needed` describes who has to sign in, if anyone."""

    service: Service
    tools: int
    unconfirmed: int
    sign_ins_needed: str

    @property
    def failing_since(self) -> datetime | None:
        """The time of the first failure since the last success."""
        failed = self.service.last_error
        return datetime.fromisoformat(failed.get("since", failed["at"])) if failed else None

    @property
    def needs_attention(self) -> bool:
        is_failing = self.service.is_enabled and self.service.last_error is not None
        return is_failing or bool(self.sign_ins_needed or self.unconfirmed)


def list_health() -> list[Health]:
    """Return the health of all services: failing ones first, then those that need attention.

    This makes at most four queries for any number of services, and no request to a service.
    """
    services = list(Service.objects.select_related("owner"))
    counts = _count_tools()
    sign_ins = count_sign_ins(services)
    health = [
        _build_health(
            service,
            *counts.get(service.pk, (0, 0)),
            sign_ins.get(service.pk, SignInCount()),
        )
        for service in services
    ]
    return sorted(
        health, key=lambda each: (each.service.last_error is None, not each.needs_attention)
    )


def _build_health(service: Service, tools: int, unconfirmed: int, sign_ins: SignInCount) -> Health:
    return Health(
        service=service,
        tools=tools,
        unconfirmed=unconfirmed if service.is_enabled else 0,
        sign_ins_needed=_describe_needed_sign_ins(service, sign_ins) if service.is_enabled else "",
    )


def _count_tools() -> dict[int, tuple[int, int]]:
    """Return the number of tools and of unconfirmed tools by service id.

    A disabled tool does not count as unconfirmed.
    """
    settings = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("name"))
    settled = Exists(settings.filter(Q(confirmed_hash=OuterRef("hash")) | Q(is_enabled=False)))
    current = ToolDefinition.objects.filter(is_current=True).order_by()
    rows = (
        current.annotate(is_settled=settled)
        .values("service_id")
        .annotate(tools=Count("pk"), unconfirmed=Count("pk", filter=Q(is_settled=False)))
    )
    return {row["service_id"]: (row["tools"], row["unconfirmed"]) for row in rows}


def _describe_needed_sign_ins(service: Service, sign_ins: SignInCount) -> str:
    match service.authentication:
        case Authentication.OAUTH_SHARED if sign_ins.ended or not sign_ins.total:
            return (
                _("an admin needs to sign in again")
                if sign_ins.ended
                else _("an admin needs to sign in for all members")
            )
        case Authentication.OAUTH_USER | Authentication.COMPANY if sign_ins.ended:
            return _("%(count)s of %(total)s members need to sign in again") % {
                "count": sign_ins.ended,
                "total": sign_ins.total,
            }
    return ""
