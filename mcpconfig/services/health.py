"""How all services do, for one page: what needs an admin's hand, and what is tried by itself."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q

from .models import Service, ToolDefinition, ToolSetting
from .oauth.sign_ins import SignIn, sign_ins_by_service

Authentication = Service.Authentication


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One service. `sign_ins_needed` says in words who has to sign in; empty where nobody has."""

    service: Service
    tools: int
    unconfirmed: int
    sign_ins_needed: str

    @property
    def failing_since(self) -> datetime | None:
        """When the first of the failures was that no success has come after."""
        failed = self.service.last_error
        return datetime.fromisoformat(failed.get("since", failed["at"])) if failed else None

    @property
    def needs_attention(self) -> bool:
        is_failing = self.service.is_enabled and self.service.last_error is not None
        return is_failing or bool(self.sign_ins_needed or self.unconfirmed)


def health_of_all() -> list[Health]:
    """All services: those that fail first, then those that need somebody, then by name. Four
    queries, whatever their number; no service is asked."""
    services = list(Service.objects.select_related("owner"))
    counts = _counts()
    by_service = sign_ins_by_service(services)
    found = [
        _health(service, *counts.get(service.pk, (0, 0)), by_service.get(service.pk, []))
        for service in services
    ]
    return sorted(
        found, key=lambda each: (each.service.last_error is None, not each.needs_attention)
    )


def _health(service: Service, tools: int, unconfirmed: int, sign_ins: list[SignIn]) -> Health:
    return Health(
        service=service,
        tools=tools,
        unconfirmed=unconfirmed if service.is_enabled else 0,
        sign_ins_needed=_needed(service, sign_ins) if service.is_enabled else "",
    )


def _counts() -> dict[int, tuple[int, int]]:
    """How many tools each service offers now, and how many of them no admin has confirmed as they
    are. A tool that is switched off waits for nobody."""
    settings = ToolSetting.objects.filter(service=OuterRef("service"), name=OuterRef("name"))
    settled = Exists(settings.filter(Q(confirmed_hash=OuterRef("hash")) | Q(is_enabled=False)))
    current = ToolDefinition.objects.filter(is_current=True).order_by()
    rows = (
        current.annotate(is_settled=settled)
        .values("service_id")
        .annotate(tools=Count("pk"), unconfirmed=Count("pk", filter=Q(is_settled=False)))
    )
    return {row["service_id"]: (row["tools"], row["unconfirmed"]) for row in rows}


def _needed(service: Service, sign_ins: list[SignIn]) -> str:
    over = sum(each.is_over for each in sign_ins)
    match service.authentication:
        case Authentication.OAUTH_SHARED if over or not sign_ins:
            return "an admin signs in again" if over else "an admin signs in for everybody"
        case Authentication.OAUTH_USER | Authentication.COMPANY if over:
            return f"{over} of {len(sign_ins)} people sign in again"
    return ""
