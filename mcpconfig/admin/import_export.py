"""Import and export of services in the admin. Nothing is saved before an admin has seen what would
be, and what was read travels between the two pages sealed, because it may hold secrets."""

import json
import zlib
from base64 import b64decode, b64encode
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect

from mcpconfig import secrets
from mcpconfig.import_formats import MOST_BYTES, Entry, Found, Refused, Unreadable, found_in
from mcpconfig.models import Service

from .exporting import exportable, exported, server_json
from .planning import (
    VALUE_CHARACTERS,
    Planned,
    add_all,
    name_for,
    planned,
)

if TYPE_CHECKING:
    from .services import ServiceAdmin

WRITTEN: dict[str, Any] = {"indent": 2, "ensure_ascii": False}
# What was entered, by blank, for each entry by its number.
Values = dict[str, dict[str, str]]


class ReadForm(forms.Form):
    """What another program wrote: pasted, or a file."""

    text = forms.CharField(
        label="Paste it",
        required=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false", "autocomplete": "off"}),
    )
    file = forms.FileField(label="or choose a file", required=False)
    found: list[Found]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        file = cleaned.get("file")
        try:
            text = file.read(MOST_BYTES + 1).decode() if file else cleaned.get("text", "")
            self.found = found_in(text)
        except UnicodeDecodeError:
            self.add_error("file", "This file is no text.")
        except Unreadable as error:
            self.add_error("file" if file else "text", str(error))
        else:
            cleaned["text"] = text
        return cleaned


def opened(desk: "ServiceAdmin", request: HttpRequest) -> HttpResponse:
    """Read, preview, add: each step is a post, and only the last one stores anything."""
    if not desk.has_add_permission(request):
        raise PermissionDenied
    if request.method == "POST" and "sealed" in request.POST:
        return _confirmed(desk, request)
    form = ReadForm(request.POST or None, request.FILES or None)
    if form.is_valid():
        return _preview(desk, request, form.cleaned_data["text"], form.found, {})
    status = 422 if form.is_bound else 200
    return desk.page(request, "import", {"title": "Import services", "form": form}, status)


def export(desk: "ServiceAdmin", request: HttpRequest) -> HttpResponse:
    if not desk.has_view_permission(request):
        raise PermissionDenied
    return _download(JsonResponse(exported(), json_dumps_params=WRITTEN), "mcp-servers.json")


def export_chosen(request: HttpRequest, chosen: QuerySet[Service]) -> HttpResponse | None:
    """A server.json of each; several come packed, each in a folder of its own."""
    files = {service.name: server_json(service) for service in exportable(chosen)}
    if not files:
        messages.warning(
            request, "None of these is exported: they are built in, or their owners’ own."
        )
        return None
    if len(files) == 1:
        [file] = files.values()
        return _download(JsonResponse(file, json_dumps_params=WRITTEN), "server.json")
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, file in files.items():
            archive.writestr(f"{name}/server.json", json.dumps(file, **WRITTEN))
    answer = HttpResponse(packed.getvalue(), content_type="application/zip")
    return _download(answer, "server-json.zip")


def _download(response: HttpResponse, name: str) -> HttpResponse:
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _confirmed(desk: "ServiceAdmin", request: HttpRequest) -> HttpResponse:
    try:
        kept = _unsealed(request)
    except secrets.Undecryptable:
        messages.error(request, "This preview cannot be read any more. Begin again.")
        return redirect("admin:mcpconfig_service_import")
    found = found_in(kept["text"])
    values = _values(request, found, kept["values"])
    plans = _plans(request, found, values)
    if not plans or any(plan.problems for plan in plans.values()):
        problem = "" if plans else "Tick at least one, or leave this page."
        return _preview(desk, request, kept["text"], found, values, plans, problem)
    for service in add_all(plans.values()):
        desk.log_addition(request, service, "Imported.")
    what = "1 service is" if len(plans) == 1 else f"{len(plans)} services are"
    messages.success(request, f"{what} added. Test and fetch the tools before people use them.")
    return redirect("admin:mcpconfig_service_changelist")


def _values(request: HttpRequest, found: list[Found], before: Values) -> Values:
    """What was entered now, a little more of it than may be. A field that is left empty keeps what
    was entered before."""
    values: Values = {}
    for number, entry in enumerate(found):
        if isinstance(entry, Entry):
            given = {key: f"value-{number}-{at}" for at, key in enumerate(_keys(entry))}
            values[str(number)] = {
                key: request.POST.get(name, "").strip()[: VALUE_CHARACTERS + 1]
                or before.get(str(number), {}).get(key, "")
                for key, name in given.items()
            }
    return values


def _keys(entry: Entry) -> list[str]:
    return [blank.key for blank in entry.blanks]


def _plans(request: HttpRequest, found: list[Found], values: Values) -> dict[int, Planned]:
    """The ticked entries as they would be saved, by number."""
    plans: dict[int, Planned] = {}
    for number, entry in enumerate(found):
        if isinstance(entry, Entry) and f"add-{number}" in request.POST:
            plans[number] = planned(
                entry,
                name=request.POST.get(f"name-{number}", "").strip(),
                values=values[str(number)],
                allows_private=f"private-{number}" in request.POST,
                taken=[plan.name for plan in plans.values()],
            )
    return plans


def _preview(
    desk: "ServiceAdmin",
    request: HttpRequest,
    text: str,
    found: list[Found],
    values: Values,
    plans: dict[int, Planned] | None = None,
    problem: str = "",
) -> HttpResponse:
    context = {
        "title": "Import services",
        "rows": [
            _row(request, number, entry, values, plans)
            for number, entry in enumerate(found)
            if isinstance(entry, Entry)
        ],
        "refused": [each for each in found if isinstance(each, Refused)],
        "sealed": _sealed(request, {"text": text, "values": values}),
        "problem": problem,
    }
    return desk.page(request, "import_preview", context, 200 if plans is None else 422)


def _row(
    request: HttpRequest,
    number: int,
    entry: Entry,
    values: Values,
    plans: dict[int, Planned] | None,
) -> dict[str, Any]:
    is_first = plans is None
    chosen = name_for(entry.label) if is_first else request.POST.get(f"name-{number}", "")
    plan = (plans or {}).get(number) or planned(entry, name=chosen)
    given = values.get(str(number), {})
    return {
        "number": number,
        "plan": plan,
        "name": chosen,
        "is_ticked": not plan.problems if is_first else number in (plans or {}),
        "problems": plan.problems if is_first or number in (plans or {}) else (),
        "allows_private": f"private-{number}" in request.POST,
        "blanks": [
            {"at": at, "blank": blank, "is_entered": bool(given.get(blank.key))}
            for at, blank in enumerate(entry.blanks)
        ],
    }


def _sealed(request: HttpRequest, kept: dict[str, Any]) -> str:
    """Packed first: what a page carries has to fit into the request that brings it back."""
    packed = b64encode(zlib.compress(json.dumps(kept).encode())).decode()
    return secrets.encrypt(packed, place=_place(request)).decode()


def _unsealed(request: HttpRequest) -> dict[str, Any]:
    """What `_sealed` took in; raises Undecryptable."""
    packed = secrets.decrypt(request.POST["sealed"].encode(), place=_place(request))
    kept: dict[str, Any] = json.loads(zlib.decompress(b64decode(packed)))
    return kept


def _place(request: HttpRequest) -> str:
    """Sealed for this admin alone."""
    return f"mcpconfig_import:{request.user.pk}"
