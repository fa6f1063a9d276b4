"""How long exchanges are kept, and how many for each service."""

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from mcpconfig.models import Exchange, Service

PRUNE_AT_ONCE = 100


def prune(service: Service) -> None:
    """Delete the old exchanges of a service, and all but the newest."""
    Exchange.objects.filter(service=service, created_at__lt=_get_cutoff()).delete()
    _delete_surplus(service.pk)


def prune_all() -> None:
    """Prune every service, including unused ones. Goes from the oldest exchange to the first one
    that is young enough: no index has their dates, and their bodies are long."""
    while True:
        oldest = Exchange.objects.order_by("pk").values_list("pk", "created_at")[:PRUNE_AT_ONCE]
        old = [pk for pk, created_at in oldest if created_at < _get_cutoff()]
        Exchange.objects.filter(pk__in=old).delete()
        if len(old) < PRUNE_AT_ONCE:
            break
    for service_id in Service.objects.values_list("pk", flat=True):
        _delete_surplus(service_id)


def _get_cutoff() -> datetime:
    return timezone.now() - timedelta(days=settings.TRACE_DAYS)


def _delete_surplus(service_id: int) -> None:
    kept = Exchange.objects.filter(service_id=service_id)
    newest = kept.order_by("-pk").values_list("pk", flat=True)
    oldest_kept = newest[max(0, settings.TRACE_EXCHANGES - 1) :][:1]
    for pk in list(oldest_kept):
        kept.filter(pk__lt=pk).delete()
