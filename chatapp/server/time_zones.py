"""Which time zone is used where.

Pages, sockets, mails and exports show times in the zone that their reader chose in the settings, or
in TIME_ZONE. Days on which rights depend are those of TIME_ZONE: nobody moves a day by choosing
another zone.
"""

from datetime import date, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.utils import timezone

REGIONS = (
    *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic"),
    *("Australia", "Europe", "Indian", "Pacific"),
)


@lru_cache(maxsize=1)
def list_zones() -> tuple[str, ...]:
    """Return the names of zones that a person may choose: places, and UTC."""
    places = (name for name in available_timezones() if name.partition("/")[0] in REGIONS)
    return ("UTC", *sorted(places))


def find_zone(name: str) -> tzinfo:
    """Return the zone with this name, or that of the server."""
    try:
        return ZoneInfo(name) if name else timezone.get_default_timezone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return timezone.get_default_timezone()


def reading_in(name: str) -> timezone.override:
    """Show times in this zone inside the block."""
    return timezone.override(find_zone(name))


def get_server_day(at: datetime | None = None) -> date:
    """Return the day of this moment, or today, in the zone of the server."""
    return timezone.localdate(at, timezone.get_default_timezone())
