"""Two admin pages: who can use which tools of a service, and all tools of one person. Both show
what the policy would decide, by the code that decides about every call."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.core.paginator import Page as PageOfRows
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.admin.badges import render_badge
from chatapp.admin.reason_texts import translate_for_admin
from chatapp.models import Member, PolicyRule
from chatapp.permissions.rules import Decision
from chatapp.rendering.hidden_characters import write_hidden
from chatapp.simulation import access
from chatapp.simulation.access import OWN_TITLE, AccessRow, AnyTool, Cell, Kind, OwnTool
from mcpconfig.admin.big_lists import list_up_to
from mcpconfig.models import Service
from mcpconfig.values.numbers import read_number

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PEOPLE_PER_PAGE = 25
GROUPS_MAX = 50
TOOLS_PER_PAGE = 8
CATALOGUE_PER_PAGE = 50
# Each word is a condition, and SQLite refuses a statement with too many.
MAX_SEARCH_CHARACTERS = 150
KINDS: "dict[Kind, StrOrPromise]" = {
    "deletes": _lazy("delete something with"),
    "changes": _lazy("write, send or delete with"),
    "all": _lazy("use"),
}
MODES: "dict[str, StrOrPromise]" = {"act": _lazy("Act mode"), "plan": _lazy("Plan mode")}
# How the address names the built-in tools, in the place of a service.
OWN = "built-in"
OUTCOMES: "dict[str, tuple[StrOrPromise, str]]" = {
    "runs": (_lazy("Runs"), "check"),
    "asks": (_lazy("Asks"), "ask"),
    "two": (_lazy("Asks two"), "two"),
    "refused": (_lazy("Refused"), "no"),
    "none": (_lazy("No access"), "dash"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A cell as it is drawn. The word says what the colour says."""

    name: str
    word: str
    icon: str
    may_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why some tools are decided in the same way; `rule` is the name of the rule that decided."""

    text: str
    tools: str = ""
    rule: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    title: str
    help: str
    address: str
    outcomes: tuple[Outcome, ...]
    reasons: tuple[Reason, ...]
    is_person: bool = False


def show_who_can(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    _check_rights(request)
    wanted = request.GET.get("service", "")
    is_own = wanted == OWN
    service = OWN_TITLE if is_own else _find_service(wanted)
    kind = _read_choice(request.GET.get("kind", ""), get_args(Kind), "deletes")
    mode = _read_choice(request.GET.get("mode", ""), tuple(MODES), "act")
    name, query = _read_tool(request, wanted), _read_search(request)
    context: dict[str, Any] = {
        "title": _("Who can…"),
        "services": list(Service.objects.order_by("title", "name")),
        "service": service,
        "key_of_service": OWN if is_own else wanted,
        "is_own": is_own,
        "own": (OWN, OWN_TITLE),
        "kinds": KINDS.items(),
        # One tool is shown whatever its kind, and the form says so.
        "kind": "all" if name else kind,
        "modes": MODES.items(),
        "mode": mode,
        "tool": name,
        "query": query,
        "max_search": MAX_SEARCH_CHARACTERS,
        "key": [draw_outcome(Cell(outcome=cast(access.Outcome, outcome))) for outcome in OUTCOMES],
    }
    if service is not None:
        stored = service if isinstance(service, Service) else None
        context |= _build_matrix(request, stored, cast(Kind, kind), name, mode, query)
    return "who_can", context


def _build_matrix(
    request: HttpRequest, service: Service | None, kind: Kind, name: str, mode: str, query: str
) -> dict[str, Any]:
    """Return the matrix of a service, or of the built-in tools."""
    page = Paginator(_filter_people(query), PEOPLE_PER_PAGE).get_page(request.GET.get("page"))
    loaded: Sequence[AnyTool] = (
        access.load_own_tools() if service is None else access.load_tools(service)
    )
    chosen = access.choose_tools(loaded, kind, name)
    columns = Paginator(chosen, TOOLS_PER_PAGE).get_page(request.GET.get("columns"))
    tools = list(columns.object_list)
    groups, groups_left_out = list_up_to(GROUPS_MAX, _filter_groups(query))
    of_groups = access.judge_groups(service, tools, groups, mode)
    of_people = access.judge_people(service, tools, list(page.object_list), mode)
    if query:
        of_groups = [row for row in of_groups if row.group is not None]
    rules = load_rules(cell for row in (*of_groups, *of_people) for cell in row.cells)
    return {
        "names": [(each, write_hidden(each)) for each in sorted(tool.name for tool in loaded)],
        "tools": [(_break_name(tool.name), render_badge(tool.risk.level)) for tool in tools],
        "columns": columns,
        "page": page,
        "groups": [_build_line(row, tools, rules) for row in of_groups],
        "groups_left_out": groups_left_out,
        "people": [_build_line(row, tools, rules) for row in of_people],
        "answer": _describe_answer(service, of_people, page, query),
    }


def _filter_groups(query: str) -> QuerySet[Group]:
    """Return the groups that have each word in their name."""
    groups = access.list_groups()
    for word in query.split():
        groups = groups.filter(name__icontains=word)
    return groups


def _describe_answer(
    service: Service | None, rows: Sequence[AccessRow], page: PageOfRows[Any], query: str
) -> str:
    """Return the answer in a sentence, about the people of this page."""
    if not rows:
        return _("No active member matches the search.")

    def count(*outcomes: str) -> int:
        return sum(any(cell.outcome in outcomes for cell in row.cells) for row in rows)

    runs = count("runs")
    values: dict[str, Any] = {
        "people": len(rows),
        "service": service,
        "able": count("runs", "asks", "two"),
        "runs": runs,
    }
    able = ngettext(
        "%(able)s of %(people)s member can use at least one of these tools of %(service)s.",
        "%(able)s of %(people)s members can use at least one of these tools of %(service)s.",
        len(rows),
    )
    if service is None:
        able = ngettext(
            "%(able)s of %(people)s member can use at least one of these built-in tools.",
            "%(able)s of %(people)s members can use at least one of these built-in tools.",
            len(rows),
        )
    alone = ngettext(
        "For %(runs)s of them, at least one runs without asking.",
        "For %(runs)s of them, at least one runs without asking.",
        runs,
    )
    if not runs:
        alone = _("None runs without asking.")
    sentence = f"{able % values} {alone % values}"
    if page.has_other_pages():
        return f"{sentence} {_('This counts the members of this page.')}"
    if query:
        return f"{sentence} {_('This counts the members that match the search.')}"
    return sentence


def show_as_person(request: HttpRequest) -> tuple[str, dict[str, Any]]:
    """Show all tools of one person, or people to choose from."""
    _check_rights(request)
    mode = _read_choice(request.GET.get("mode", ""), tuple(MODES), "act")
    query = _read_search(request)
    context: dict[str, Any] = {
        "title": _("Tools of a member"),
        "modes": MODES.items(),
        "mode": mode,
        "query": query,
    }
    wanted = request.GET.get("person", "")
    if not wanted:
        found = list(_filter_people(query)[:PEOPLE_PER_PAGE])
        return "as_person", {**context, "max_search": MAX_SEARCH_CHARACTERS, "found": found}
    person = get_object_or_404(Member, pk=read_number(wanted))
    pages = Paginator(range(access.count_catalogue(person)), CATALOGUE_PER_PAGE)
    page = pages.get_page(request.GET.get("page"))
    first = max(page.start_index() - 1, 0)
    judged = list(access.judge_catalogue(person, first, page.end_index(), mode))
    # The built-in tools are few, and above those of services on the first page.
    own = access.judge_own_catalogue(person, mode) if page.number == 1 else []
    rules = load_rules(cell for _tool, cell in (*own, *judged))

    def build_rows(found: Iterable[tuple[AnyTool, Cell]]) -> list[tuple[Any, ...]]:
        return [
            (
                *(tool, render_badge(tool.risk.level), draw_outcome(cell)),
                explain_cell(cell, person, rules, is_own=isinstance(tool, OwnTool)),
            )
            for tool, cell in found
        ]

    title = _("Tools of %(person)s") % {"person": person.display_name}
    return "as_person", {
        **context,
        "title": title,
        "person": person,
        "own_rows": build_rows(own),
        "rows": build_rows(judged),
        "page": page,
    }


def _filter_people(query: str) -> QuerySet[Member]:
    """Return the active members who have each word in a name or in the email address."""
    people = Member.objects.filter(is_active=True).order_by("username")
    for word in query.split():
        people = people.filter(
            Q(username__icontains=word)
            | Q(first_name__icontains=word)
            | Q(last_name__icontains=word)
            | Q(email__icontains=word)
        )
    return people


# --- what is shown -------------------------------------------------------------------------------
def _build_line(row: AccessRow, tools: Sequence[AnyTool], rules: dict[int, str]) -> Line:
    title, help_text, address = _name_row(row)
    return Line(
        title=title,
        help=help_text,
        address=address,
        outcomes=tuple(map(draw_outcome, row.cells)),
        reasons=tuple(_list_reasons(row, tools, rules)),
        is_person=row.person is not None,
    )


def _name_row(row: AccessRow) -> tuple[str, str, str]:
    if row.person is not None:
        address = reverse("admin:policy_as_person") + f"?person={row.person.pk}"
        return row.person.display_name, row.person.username, address
    if row.group is not None:
        count = ngettext("%(count)s member", "%(count)s members", row.members)
        address = reverse("admin:auth_group_change", args=[row.group.pk])
        return row.group.name, count % {"count": row.members}, address
    return _("In no group"), "", ""


def _break_name(name: str) -> SafeString:
    """Return the name with a place for a line break after each underscore."""
    return format_html_join(SafeString("_<wbr>"), "{}", ((part,) for part in name.split("_")))


def draw_outcome(cell: Cell) -> Outcome:
    word, icon = OUTCOMES[cell.outcome]
    return Outcome(name=cell.outcome, word=str(word), icon=icon, may_change=cell.may_change)


def _list_reasons(
    row: AccessRow, tools: Sequence[AnyTool], rules: dict[int, str]
) -> Iterable[Reason]:
    """Yield each reason once, with its tools if there are others."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for tool, cell in zip(tools, row.cells, strict=True):
        for reason in explain_cell(cell, row.person, rules, is_own=isinstance(tool, OwnTool)):
            key = (reason.text, reason.rule, reason.address)
            found.setdefault(key, []).append(tool.name)
    for (text, rule, address), names in found.items():
        named = "" if len(names) == len(tools) else ", ".join(names)
        yield Reason(text=text, tools=named, rule=rule, address=address)


def explain_cell(
    cell: Cell, person: Member | None, rules: dict[int, str], *, is_own: bool = False
) -> list[Reason]:
    """Return why a call would be decided so. `is_own`: the tool is built in."""
    if cell.decision is None and is_own:
        return [Reason(text=_explain_no_access(person))]
    if cell.decision is None:
        return [Reason(text=_("The service is switched off or not open to them."))]
    explained = [_explain_decision(cell.decision, person, rules)]
    if cell.place:
        explained.append(Reason(text=str(cell.place)))
    if cell.may_change:
        explained.append(Reason(text=_("A rule depends on the arguments and may change this.")))
    return explained


def _explain_no_access(person: Member | None) -> str:
    if person is not None and not person.is_active:
        return _("This account is deactivated.")
    return _("Only admins who manage services may use it.")


def _explain_decision(decision: Decision, person: Member | None, rules: dict[int, str]) -> Reason:
    name = person.display_name if person is not None else _("the member")
    text = " ".join(filter(None, [translate_for_admin(decision.reason, name), decision.note]))
    rule_id = decision.rule_id
    if rule_id is None or rule_id not in rules:
        return Reason(text=text)
    address = reverse("admin:chatapp_policyrule_change", args=[rule_id])
    return Reason(text=text, rule=rules[rule_id], address=address)


def load_rules(cells: Iterable[Cell]) -> dict[int, str]:
    found = (cell.decision.rule_id for cell in cells if cell.decision is not None)
    ids = {rule_id for rule_id in found if rule_id is not None}
    return dict(PolicyRule.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}


# --- what is asked -------------------------------------------------------------------------------
def _check_rights(request: HttpRequest) -> None:
    """The pages also show who the members are and what they allowed in advance."""
    if not cast(Member, request.user).has_perm("chatapp.view_member"):
        raise PermissionDenied


def _find_service(wanted: str) -> Service | None:
    if not wanted:
        return None
    return get_object_or_404(Service, pk=read_number(wanted))


def _read_tool(request: HttpRequest, service: str) -> str:
    """Return the name of the chosen tool. The form also sends which service has the tools that it
    offers: without JavaScript they stay when somebody chooses another service."""
    if request.GET.get("tools_of", service) != service:
        return ""
    return request.GET.get("tool", "")


def _read_search(request: HttpRequest) -> str:
    # PostgreSQL refuses a text with a NUL.
    return request.GET.get("q", "").replace("\0", "").strip()[:MAX_SEARCH_CHARACTERS]


def _read_choice(wanted: str, choices: Sequence[str], default: str) -> str:
    return wanted if wanted in choices else default
