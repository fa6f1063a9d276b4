"""What is deleted with a row that many others belong to, for the page that confirms it.

Django loads every such row to list it. Here they are counted, and the first ones of each kind that
has pages in the admin are named.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import CASCADE, Count, Q, QuerySet, Value
from django.db.models.deletion import get_candidate_relations_to_delete
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from .read_only import ReadOnlyMixin

MOST_NAMED = 20
# As `ModelAdmin.get_deleted_objects` returns it: what is named, the number of each kind, the kinds
# that this admin may not delete, and what prevents it.
Deleted = tuple[list[Any], dict[Any, int], set[Any], list[Any]]


def find_deleted(rows: Sequence[Any], request: HttpRequest, site: AdminSite) -> Deleted:
    """Return what is deleted with these rows of one model, which no relation protects. One
    statement, and one more for each kind that is named."""
    if not rows:
        return [], {}, set(), []
    model: Any = type(rows[0])
    related = dict(_filter_related(model, rows))
    counts: dict[Any, int] = {model: len(rows), **_count(related)}
    registered = [each for each in counts if site.is_registered(each)]
    missing = {
        each._meta.verbose_name
        for each in registered
        for row in (rows if each is model else (None,))
        if not _is_record(each, site)
        and not site.get_model_admin(each).has_delete_permission(request, row)
    }
    named: list[Any] = [_name(row) for row in rows]
    for each in () if missing else registered[1:]:
        first: list[str] = [_name(row) for row in related[each].order_by("pk")[:MOST_NAMED]]
        if rest := counts[each] - len(first):
            first.append(_("and %(count)s more") % {"count": intcomma(rest)})
        named.append(first)
    return named, {each._meta.verbose_name_plural: counts[each] for each in counts}, missing, []


def _is_record(model: Any, site: AdminSite) -> bool:
    """Whether nobody deletes rows of this model by themselves. They go with what they belong to."""
    return isinstance(site.get_model_admin(model), ReadOnlyMixin)


def _filter_related(model: Any, rows: Sequence[Any]) -> Iterator[tuple[Any, QuerySet[Any]]]:
    """Yield each other model with its rows that are deleted with these."""
    paths: dict[Any, list[str]] = defaultdict(list)
    for related, path in find_cascades(model):
        paths[related].append(path)
    for related, found in paths.items():
        leads_here = Q()
        for path in found:
            leads_here |= Q(**{f"{path}__in": rows})
        yield related, related._base_manager.filter(leads_here)


def find_cascades(model: Any, path: str = "") -> Iterator[tuple[Any, str]]:
    """Yield each model whose rows are deleted with a row of this model, and the fields that lead
    from there to the row. A model to which several paths lead comes several times."""
    relations: Any = get_candidate_relations_to_delete(model._meta)
    for relation in relations:
        if getattr(relation, "on_delete", None) is CASCADE:
            name = relation.field.name
            leads_here = f"{name}__{path}" if path else name
            yield relation.related_model, leads_here
            yield from find_cascades(relation.related_model, leads_here)


def _count(related: dict[Any, QuerySet[Any]]) -> dict[Any, int]:
    """Count the rows of each model in one statement. A model without any is left out."""
    by_label = {model._meta.label: model for model in related}
    counted = [
        rows.order_by()
        .annotate(label=Value(model._meta.label))
        .values("label")
        .annotate(number=Count("pk"))
        .values_list("label", "number")
        for model, rows in related.items()
    ]
    found = counted[0].union(*counted[1:], all=True) if counted else ()
    return {by_label[label]: number for label, number in found if number}


def _name(row: Any) -> SafeString:
    """Return the kind and the name of the row, with a link to its page in the admin."""
    meta = row._meta
    address = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[quote(row.pk)])
    return format_html('{}: <a href="{}">{}</a>', capfirst(meta.verbose_name), address, row)
