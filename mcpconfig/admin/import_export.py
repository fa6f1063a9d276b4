"""Import and export of services in the admin.

Nothing is saved before an admin has seen a preview. The imported text is encrypted in the preview
form, because it may hold secrets.
"""

import json
import zlib
from base64 import b64decode, b64encode
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from django import forms
from django.contrib import messages
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from mcpconfig.models import Service
from mcpconfig.secrets import encryption
from mcpconfig.services.export import build_mcp_servers, build_server_json, list_exportable
from mcpconfig.services.import_plan import (
    MAX_VALUE_CHARACTERS,
    ONLY_ADMINS,
    Access,
    ImportPlan,
    add_planned,
    plan_service,
    suggest_name,
)
from mcpconfig.values.import_formats import (
    MAX_BYTES,
    Entry,
    ImportFormatError,
    ParsedEntry,
    RejectedEntry,
    parse_services,
)

from .service_pages import ServicePages, may_change_credentials

JSON_STYLE: dict[str, Any] = {"indent": 2, "ensure_ascii": False}
# Who may use the services that are added. Nobody else does before an admin has chosen.
ACCESS_CHOICES = [
    (Service.Visibility.PRIVATE, _lazy("Only admins")),
    (Service.Visibility.GROUPS, _lazy("Groups")),
    (Service.Visibility.EVERYONE, _lazy("Everyone")),
]
# Entered values, by the number of the entry and the key of the blank.
Values = dict[str, dict[str, str]]


class ImportForm(forms.Form):
    """The configuration of another program, as pasted text or a file."""

    text = forms.CharField(
        label=_lazy("Configuration"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false", "autocomplete": "off"}),
    )
    file = forms.FileField(label=_lazy("Or choose a file"), required=False)
    entries: list[ParsedEntry]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        file = cleaned.get("file")
        try:
            text = file.read(MAX_BYTES + 1).decode() if file else cleaned.get("text", "")
            self.entries = parse_services(text)
        except UnicodeDecodeError:
            self.add_error("file", _("This is not a text file."))
        except ImportFormatError as error:
            self.add_error("file" if file else "text", str(error))
        else:
            cleaned["text"] = text
        return cleaned


def show_import(pages: ServicePages, request: HttpRequest) -> HttpResponse:
    """Show the form, the preview, or add the services. Only the last step stores anything."""
    if not (pages.has_add_permission(request) and may_change_credentials(request)):
        raise PermissionDenied
    if request.method == "POST" and "sealed" in request.POST:
        return _add_services(pages, request)
    form = ImportForm(request.POST or None, request.FILES or None)
    if form.is_valid():
        return _render_preview(pages, request, form.cleaned_data["text"], form.entries, {})
    status = 422 if form.is_bound else 200
    return pages.render_page(
        request, "import", {"title": _("Import services"), "form": form}, status
    )


def download_services(pages: ServicePages, request: HttpRequest) -> HttpResponse:
    if not pages.has_view_permission(request):
        raise PermissionDenied
    pages.note_download("mcp-servers.json")
    return _make_download(
        JsonResponse(build_mcp_servers(), json_dumps_params=JSON_STYLE), "mcp-servers.json"
    )


def download_server_json(
    pages: ServicePages, request: HttpRequest, chosen: QuerySet[Service]
) -> HttpResponse | None:
    """Return one `server.json`, or a ZIP file with a folder for each of several services."""
    files = {service.name: build_server_json(service) for service in list_exportable(chosen)}
    if not files:
        messages.warning(
            request, _("Nothing to export. Built-in and private services are not exported.")
        )
        return None
    pages.note_download("server.json", list(files))
    if len(files) == 1:
        [file] = files.values()
        return _make_download(JsonResponse(file, json_dumps_params=JSON_STYLE), "server.json")
    buffer = BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, file in files.items():
            archive.writestr(f"{name}/server.json", json.dumps(file, **JSON_STYLE))
    response = HttpResponse(buffer.getvalue(), content_type="application/zip")
    return _make_download(response, "server-json.zip")


def _make_download(response: HttpResponse, name: str) -> HttpResponse:
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _add_services(pages: ServicePages, request: HttpRequest) -> HttpResponse:
    try:
        preview = _unseal(request)
    except encryption.DecryptionError:
        messages.error(request, _("This preview cannot be read. Start over."))
        return redirect("admin:mcpconfig_service_import")
    entries = parse_services(preview["text"])
    values = _read_values(request, entries, preview["values"])
    plans = _plan_ticked(request, entries, values)
    if not plans or any(plan.problems for plan in plans.values()):
        problem = "" if plans else _("Select at least one service.")
        return _render_preview(pages, request, preview["text"], entries, values, plans, problem)
    for service in add_planned(plans.values()):
        pages.log_addition(request, service, _("Imported."))
    text = ngettext(
        "Added %(number)s service. Test it and fetch its tools before members use it.",
        "Added %(number)s services. Test them and fetch their tools before members use them.",
        len(plans),
    )
    messages.success(request, text % {"number": len(plans)})
    return redirect("admin:mcpconfig_service_changelist")


def _read_values(request: HttpRequest, entries: list[ParsedEntry], before: Values) -> Values:
    """Return the entered values. An empty field keeps the value from the previous preview.

    Values are cut one character after the limit, so that a longer one is still refused.
    """
    values: Values = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, Entry):
            given = {key: f"value-{number}-{at}" for at, key in enumerate(_list_blank_keys(entry))}
            values[str(number)] = {
                key: request.POST.get(name, "").strip()[: MAX_VALUE_CHARACTERS + 1]
                or before.get(str(number), {}).get(key, "")
                for key, name in given.items()
            }
    return values


def _read_access(request: HttpRequest) -> Access:
    """Return who may use the services: only admins, unless somebody else is chosen."""
    visibility = request.POST.get("access", "")
    if visibility == Service.Visibility.GROUPS:
        return Access(visibility=visibility, groups=request.POST.getlist("groups"))
    if visibility == Service.Visibility.EVERYONE:
        return Access(visibility=visibility)
    return ONLY_ADMINS


def _list_blank_keys(entry: Entry) -> list[str]:
    return [blank.key for blank in entry.placeholders]


def _plan_ticked(
    request: HttpRequest, entries: list[ParsedEntry], values: Values
) -> dict[int, ImportPlan]:
    """Return the plans of the ticked entries, by number."""
    access = _read_access(request)
    plans: dict[int, ImportPlan] = {}
    for number, entry in enumerate(entries):
        if isinstance(entry, Entry) and f"add-{number}" in request.POST:
            plans[number] = plan_service(
                entry,
                name=request.POST.get(f"name-{number}", "").strip(),
                values=values[str(number)],
                allows_private=f"private-{number}" in request.POST,
                access=access,
                taken=[plan.name for plan in plans.values()],
            )
    return plans


def _render_preview(
    pages: ServicePages,
    request: HttpRequest,
    text: str,
    entries: list[ParsedEntry],
    values: Values,
    plans: dict[int, ImportPlan] | None = None,
    problem: str = "",
) -> HttpResponse:
    context = {
        "title": _("Import services"),
        "rows": [
            _build_row(request, number, entry, values, plans)
            for number, entry in enumerate(entries)
            if isinstance(entry, Entry)
        ],
        "refused": [entry for entry in entries if isinstance(entry, RejectedEntry)],
        "sealed": _seal(request, {"text": text, "values": values}),
        "access": [
            (value, label, value == _read_access(request).visibility)
            for value, label in ACCESS_CHOICES
        ],
        "groups": [
            (group, str(group.pk) in request.POST.getlist("groups"))
            for group in Group.objects.order_by("name")
        ],
        "problem": problem,
    }
    return pages.render_page(request, "import_preview", context, 200 if plans is None else 422)


def _build_row(
    request: HttpRequest,
    number: int,
    entry: Entry,
    values: Values,
    plans: dict[int, ImportPlan] | None,
) -> dict[str, Any]:
    is_first = plans is None
    chosen = suggest_name(entry.label) if is_first else request.POST.get(f"name-{number}", "")
    plan = (plans or {}).get(number) or plan_service(entry, name=chosen)
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
            for at, blank in enumerate(entry.placeholders)
        ],
    }


def _seal(request: HttpRequest, preview: dict[str, Any]) -> str:
    """Compress and encrypt the text, which has to fit into the next request."""
    compressed = b64encode(zlib.compress(json.dumps(preview).encode())).decode()
    return encryption.encrypt(compressed, place=_name_sealing_place(request)).decode()


def _unseal(request: HttpRequest) -> dict[str, Any]:
    """Return what `_seal` encrypted. Raise `DecryptionError` if it was not for this admin."""
    compressed = encryption.decrypt(
        request.POST["sealed"].encode(), place=_name_sealing_place(request)
    )
    preview: dict[str, Any] = json.loads(zlib.decompress(b64decode(compressed)))
    return preview


def _name_sealing_place(request: HttpRequest) -> str:
    """Return the encryption context, which binds the text to this admin."""
    return f"mcpconfig_import:{request.user.pk}"
