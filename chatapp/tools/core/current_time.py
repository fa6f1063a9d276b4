"""The current date and time in any named time zone."""

from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.utils import timezone
from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field

from chatapp.tools.blueprint import EVERYWHERE, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context, ToolError

NEAR_NAMES = 4


class Input(Strict):
    zone: str = Field(
        description="A name of the IANA database, such as “Asia/Tokyo” or “UTC”.",
        min_length=1,
        max_length=64,
    )


class Output(BaseModel):
    zone: str
    time: str = Field(description="ISO 8601 with the offset from UTC.")
    weekday: str


def handle(context: Context, asked: Input) -> Output:
    zone = _find_zone(asked.zone)
    now = timezone.now().astimezone(ZoneInfo(zone)).replace(microsecond=0)
    return Output(zone=zone, time=now.isoformat(), weekday=f"{now:%A}")


def _find_zone(name: str) -> str:
    """Return the name as the database spells it. A place alone is enough if only one zone has
    it."""
    wanted = _normalise(name)
    places = _find_places(wanted)
    if found := _load_names().get(wanted) or (places[0] if len(places) == 1 else ""):
        return found
    near = places[:NEAR_NAMES] or _find_alike(wanted)
    hint = f" Did you mean {' or '.join(near)}?" if near else " Try “Europe/Berlin” or “UTC”."
    raise ToolError(field="zone", message=f"There is no time zone of this name.{hint}")


def _find_places(wanted: str) -> list[str]:
    return [name for each, name in sorted(_load_names().items()) if each.endswith(f"/{wanted}")]


def _find_alike(wanted: str) -> list[str]:
    """Return zone names with a similar spelling, also of the place alone."""
    spelled = {each.rpartition("/")[2]: name for each, name in sorted(_load_names().items())}
    spelled |= _load_names()
    near = get_close_matches(wanted, spelled, n=NEAR_NAMES, cutoff=0.6)
    return list(dict.fromkeys(spelled[each] for each in near))


@cache
def _load_names() -> dict[str, str]:
    return {_normalise(name): name for name in available_timezones()}


def _normalise(name: str) -> str:
    return name.strip().replace(" ", "_").casefold()


def render_text(output: Output) -> str:
    return f"{output.weekday}, {output.time} ({output.zone})"


TOOL = CoreTool(
    name="current-time",
    title=gettext_noop("Current time"),
    description="The date and time now in a time zone.",
    input=Input,
    output=Output,
    risk="low",
    risk_reason=gettext_noop("It only reads a clock."),
    modes=EVERYWHERE,
    handler=handle,
    render_text=render_text,
    documentation=Documentation(
        examples=(
            Example(
                input={"zone": "Asia/Tokyo"},
                output={
                    "zone": "Asia/Tokyo",
                    "time": "2026-07-28T21:00:00+09:00",
                    "weekday": "Tuesday",
                },
            ),
        ),
        limitations="It is the clock of this server. It does not convert other times.",
        limits="A name has at most 64 characters.",
        rights="Every member.",
        errors="An unknown name is refused, with names that are spelled alike.",
        clients=(
            "Names are those of the IANA time zone database. Capitals do not matter, and a place "
            "alone will do where only one zone has it."
        ),
    ),
)
