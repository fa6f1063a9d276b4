"""What an admin opens: every page of the admin, and each list with its filters, a search, its last
page and each order. The pages come from the table of routes, so that none is forgotten."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.views.main import ChangeList
from django.test import Client
from django.urls import reverse

from chatapp.audit import chat_access
from chatapp.models import Approval, Member

from .many_rows import Rows
from .route_world import World
from .test_routes import admin_pages

# They end the session, lead to others, or send something to services.
LEFT_OUT = {
    *("login", "logout", "password_change_done", "view_on_site", "autocomplete", "jsi18n"),
    *(f"mcpconfig_service_{name}" for name in ("resources", "prompts", "prompt")),
}
Visit = tuple[str, str]


def choose_rows(world: World, rows: Rows, client: Client) -> Mapping[str, object]:
    """Return the busiest rows by model, and let the pages of the world be about them."""
    service, person = rows.services[0], rows.people[0]
    definition = next(each for each in rows.definitions if each.service_id == service.pk)
    asked = Approval.objects.select_related("tool_call__turn").order_by("tool_call_id")
    of_service = asked.filter(tool_call__service=service, state=Approval.State.GRANTED)
    approval = of_service.first() or asked.first()
    assert approval is not None
    call = approval.tool_call
    chat = call.turn.conversation_id
    world.ids.update(
        service=service.pk,
        definition=definition.hash,
        member=person.pk,
        chat=chat,
    )
    chat_access.open_chat(world.admin, chat, "To look at it.")
    return {
        "mcpconfig.service": service.pk,
        "mcpconfig.tooldefinition": definition.pk,
        "chatapp.member": person.pk,
        "chatapp.conversation": chat,
        "chatapp.turn": call.turn_id,
        "chatapp.toolcall": call.pk,
        "chatapp.approval": approval.pk,
        "auth.group": person.groups.get().pk,
    }


def list_pages(world: World, rows: Mapping[str, object]) -> Iterator[Visit]:
    for name, address in admin_pages(world, rows):
        if name and name not in LEFT_OUT:
            yield name, address
    yield from _list_questions(world, rows)


def _list_questions(world: World, rows: Mapping[str, object]) -> Iterator[Visit]:
    """Yield pages that show much only when they are asked for it."""
    service, person = rows["mcpconfig.service"], rows["chatapp.member"]
    tools = reverse("admin:mcpconfig_service_tools", args=[service])
    call = {"conversation_id": rows["chatapp.conversation"], "call_id": rows["chatapp.toolcall"]}
    log = reverse("admin:chatapp_logentry_changelist")
    exchanges = reverse("admin:mcpconfig_exchange_changelist")
    people = {"app_label": "chatapp", "model_name": "policytest", "field_name": "person"}
    asked: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("who can", reverse("admin:policy_who_can"), {"service": service, "kind": "all"}),
        (
            "who can, searched",
            reverse("admin:policy_who_can"),
            {"service": service, "kind": "all", "q": "person"},
        ),
        ("as person", reverse("admin:policy_as_person"), {"person": person}),
        ("as person, found", reverse("admin:policy_as_person"), {"q": "person"}),
        ("questions, 90 days", reverse("admin:policy_questions"), {"days": 90}),
        ("tools by use", tools, {"sort": "used"}),
        ("tools, searched", tools, {"q": "issue"}),
        ("log of a call", log, call),
        (
            "trace of a call",
            exchanges,
            {"service__id__exact": service, "round_id": call["call_id"]},
        ),
        ("autocomplete", reverse("admin:autocomplete"), {**people, "term": "per"}),
    )
    for name, address, query in asked:
        yield name, f"{address}?{urlencode(query)}"


def list_variants(name: str, response: Any) -> Iterator[Visit]:
    """Yield the addresses to which a list leads: each filter, each order, the last page, searches
    for a common and for a rare word."""
    found = (getattr(response, "context_data", None) or {}).get("cl")
    if not isinstance(found, ChangeList):
        return
    for spec in found.filter_specs:
        choices = [each for each in spec.choices(found) if "query_string" in each]
        for choice in choices if len(choices) < 20 else (*choices[1:3], choices[-1]):
            if not choice["selected"]:
                title = f"{name} by {spec.title}: {choice['display']}"
                yield title, str(choice["query_string"])
    if found.search_fields:
        for word in ("a", "person-0001", "nothing-has-this"):
            yield f"{name}, search for {word}", f"?{urlencode({'q': word})}"
    last = -(-found.result_count // found.list_per_page)
    if last > 1:
        yield f"{name}, last page", f"?p={last}"
    for number, column in enumerate(found.list_display):
        if found.model_admin.get_sortable_by(response.wsgi_request) and _may_sort(found, column):
            yield f"{name} in the order of {column}", f"?o={number}"


def _may_sort(found: ChangeList, column: Any) -> bool:
    return column in (found.sortable_by or ()) and bool(found.get_ordering_field(column))


def sign_in(admin: Member) -> Client:
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(admin)
    return client
