"""What the galleries of assistants and of saved prompts share: search, filter and sections."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower
from django.utils.translation import gettext as _

from chatapp.models import Member
from chatapp.models.conversations.search_text import match_all
from chatapp.models.presets.sharing import Audience, SharedRow

MAX_SHOWN = 300
MAX_WORDS = 8
Row = TypeVar("Row", bound=SharedRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[Row]):
    label: str
    rows: list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A link that shows one part of the gallery."""

    value: str
    label: str
    is_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery(Generic[Row]):
    """The rows that a person may use. `has_more` says that not all of them are listed."""

    query: str
    show: str
    filters: list[Filter]
    sections: list[Section[Row]]
    has_more: bool

    @property
    def is_filtered(self) -> bool:
        return bool(self.query or self.show)


def build_gallery(
    person: Member, rows: "QuerySet[Row]", columns: Sequence[str], query: str, show: str
) -> Gallery[Row]:
    """Return those of the rows that have all words of the query in these columns, by who can use
    them, in the order of the first column. `show` limits them to the person's own, to those of a
    group or to those for everyone."""
    groups = list(person.groups.order_by("name"))
    labels = {
        "mine": _("Mine"),
        **{f"group-{each.pk}": each.name for each in groups},
        "everyone": _("Everyone"),
    }
    show = show if show in labels else ""
    rows = rows.filter(match_all(columns, query.split()[:MAX_WORDS]))
    rows = rows.filter(_match_shown(person, show)).select_related("owner", "group")
    listed = list(rows.order_by(Lower(columns[0]), "pk")[: MAX_SHOWN + 1])
    filters = [
        Filter(value=value, label=label, is_current=value == show)
        for value, label in {"": _("All"), **labels}.items()
    ]
    return Gallery(
        query=query,
        show=show,
        filters=filters,
        sections=_build_sections(person, listed[:MAX_SHOWN], groups, labels, show),
        has_more=len(listed) > MAX_SHOWN,
    )


def _match_shown(person: Member, show: str) -> Q:
    match show.partition("-"):
        case ("mine", *_rest):
            return Q(owner=person)
        case ("group", _dash, group):
            return Q(audience=Audience.GROUP, group=int(group))
        case ("everyone", *_rest):
            return Q(audience=Audience.EVERYONE)
    return Q()


def _build_sections(
    person: Member, rows: list[Row], groups: list[Group], labels: dict[str, str], show: str
) -> list[Section[Row]]:
    sections: dict[str, list[Row]] = {value: [] for value in labels}
    known = {each.pk for each in groups}
    for row in rows:
        if show:
            sections[show].append(row)
        elif row.audience == Audience.EVERYONE:
            sections["everyone"].append(row)
        elif row.audience == Audience.GROUP and row.group_id in known:
            sections[f"group-{row.group_id}"].append(row)
        else:
            sections["mine"].append(row)
    return [Section(label=labels[value], rows=found) for value, found in sections.items() if found]
