"""What a person may do with their data: take it along, and have it deleted with the account."""

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import IO, Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.db.models.functions import Now
from django.http import Http404
from django.utils.translation import gettext as _

from chatapp.context import file_storage
from chatapp.context.file_storage import FileMissing, Holder, StorageUnavailable
from chatapp.conversations import chat_list
from chatapp.conversations.exports import open_export
from chatapp.models import (
    AccessToken,
    AnswerFeedback,
    Assistant,
    AssistantPicture,
    Attachment,
    AttentionCheck,
    ChatImport,
    CodeUse,
    Consent,
    Conversation,
    DirectoryAccount,
    Guidance,
    LogEntry,
    MailPreference,
    Member,
    Memory,
    MessageDraft,
    Notification,
    NotificationPreference,
    Project,
    ProjectFile,
    ProjectMember,
    PushDevice,
    QueuedMessage,
    SavedPrompt,
    SharedLink,
    StandIn,
    ToolSwitch,
    UsageOfDay,
)
from chatapp.models.conversations.conversation import RESTORABLE
from chatapp.people.admin_rights import lock_last_admin
from chatapp.people.refused import Refused
from chatapp.projects import members as project_members
from chatapp.rendering.exports.json_file import write_json
from chatapp.rendering.exports.markdown_file import write_markdown
from chatapp.rendering.exports.values import ToolDetail
from mcpconfig.models import CompanySignIn, OAuthAttempt, OAuthChallenge, OAuthGrant, Service
from mcpconfig.services.import_plan import mask_url
from mcpconfig.services.own_services import list_own_services

from . import entries
from .lock_out import lock_out

# What the person wrote or set, and its fields that others than the program can read.
TABLES: dict[str, tuple[type[Model], str, tuple[str, ...]]] = {
    "memories": (Memory, "person", ("text", "created_at")),
    "prompts": (SavedPrompt, "owner", ("title", "text", "audience")),
    "guidance": (Guidance, "person", ("service__name", "tool", "text")),
    "drafts": (MessageDraft, "owner", ("conversation", "text", "saved_at")),
    "queued_messages": (
        *(QueuedMessage, "conversation__owner"),
        ("conversation", "text", "attachments", "model", "effort", "problem", "created_at"),
    ),
    "ratings": (
        *(AnswerFeedback, "message__conversation__owner"),
        ("message__conversation", "message", "is_good", "comment", "model", "saved_at"),
    ),
    "shared_links": (
        *(SharedLink, "conversation__owner"),
        (
            *("conversation", "title", "audience", "tools", "includes_files", "messages"),
            *("taken_at", "created_at", "expires_at", "revoked_at", "opened", "opened_at"),
        ),
    ),
    "projects": (Project, "owner", ("name", "description", "instructions", "created_at")),
    "project_memberships": (
        *(ProjectMember, "person"),
        ("project__name", "project__owner__username", "role", "added_at"),
    ),
    "delegates": (StandIn, "approver", ("stand_in__username", "begins_on", "ends_on")),
    "delegate_for": (StandIn, "stand_in", ("approver__username", "begins_on", "ends_on")),
    "permissions": (Consent, "person", ("service__name", "scope", "created_at", "revoked_at")),
    "access_tokens": (AccessToken, "person", ("name", "prefix", "scopes", "created_at")),
    "push_devices": (PushDevice, "person", ("name", "created_at")),
    "notifications": (
        *(NotificationPreference, "person"),
        ("pushes_waiting", "pushes_answers", "shows_titles", "uses_webhooks"),
    ),
    "mail": (MailPreference, "person", ("is_on",)),
    "usage": (UsageOfDay, "person", ("day", "model", "input_tokens", "output_tokens")),
}

ASSISTANT_FIELDS = (
    *("name", "description", "instructions", "starters", "model", "effort", "mode"),
    *("temperature", "output_tokens", "uses_tools", "limits_services"),
)


# What is deleted with the account, by the field that names the person.
OF_PERSON: tuple[type[Model], ...] = (
    *(OAuthGrant, OAuthAttempt, OAuthChallenge, CompanySignIn),
    *(Memory, Guidance, Consent, ToolSwitch, ChatImport, MailPreference),
    *(NotificationPreference, PushDevice, Notification, AttentionCheck),
)
OF_OWNER: tuple[type[Model], ...] = (SavedPrompt, Assistant, MessageDraft)


def write_archive(member: Member, target: IO[bytes], address: str) -> None:
    """Write everything of this member as a ZIP file: chats as JSON and Markdown, else JSON. It has
    no secrets: no tokens, no links that open a chat, no credentials of services."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("account.json", _dump(_describe_account(member)))
        for name, (model, holder, fields) in TABLES.items():
            rows = model._default_manager.filter(**{holder: member}).order_by("pk")
            archive.writestr(f"{name}.json", _dump(list(rows.values(*fields))))
        archive.writestr("assistants.json", _dump(_list_assistants(member)))
        archive.writestr("services.json", _dump(_list_services(member)))
        archive.writestr("attention_checks.json", _dump(_list_checks(member)))
        for pk in Conversation.filter_owned(member).values_list("pk", flat=True):
            _write_chat(archive, member, pk, address)
        _write_files(archive, member)
        for picture in AssistantPicture.objects.filter(assistant__owner=member):
            archive.writestr(_name_picture(picture.pk), bytes(picture.data))
    entries.write(LogEntry.Kind.DATA_EXPORTED, member)


def _list_assistants(member: Member) -> list[dict[str, Any]]:
    return [
        {name: getattr(assistant, name) for name in ASSISTANT_FIELDS}
        | {"services": [service.name for service in assistant.services.all()]}
        | {"picture": _name_picture(assistant.pk) if assistant.picture_hash else ""}
        for assistant in Assistant.objects.filter(owner=member).prefetch_related("services")
    ]


def _name_picture(pk: Any) -> str:
    """Return the path in the archive of the picture of an assistant."""
    return f"assistants/{pk}.webp"


def _list_services(member: Member) -> list[dict[str, Any]]:
    """Return the services that the member added, with URLs in which secrets are masked."""
    fields = ("name", "title", "description", "url", "authentication", "is_enabled")
    rows = list_own_services(member).values(*fields)
    return [{**row, "url": mask_url(row["url"])} for row in rows]


def _list_checks(member: Member) -> list[dict[str, Any]]:
    """Return the attention checks that are over. An open one would be given away."""
    rows = AttentionCheck.objects.filter(person=member).exclude(state=AttentionCheck.State.OPEN)
    fields = ("service", "tool", "state", "created_at", "shown_at", "answered_at")
    return list(rows.order_by("created_at").values(*fields))


def _write_chat(archive: zipfile.ZipFile, member: Member, pk: Any, address: str) -> None:
    for suffix, write, is_whole in (("json", write_json, True), ("md", write_markdown, False)):
        try:
            with open_export(member, pk, ToolDetail.FULL, address, is_whole=is_whole) as chat:
                text = write(chat)
        except Http404:  # deleted meanwhile
            return
        archive.writestr(f"chats/{pk}.{suffix}", text.encode("utf-8", "backslashreplace"))


def _write_files(archive: zipfile.ZipFile, member: Member) -> None:
    """Write the files one by one. Those whose storage does not give them are listed instead."""
    missing = []
    for path, holder in _iterate_files(member):
        try:
            data = file_storage.read_bytes(holder)
        except (FileMissing, StorageUnavailable):
            missing.append(path)
        else:
            archive.writestr(path, data)
    if missing:
        archive.writestr("missing_files.json", _dump(missing))


def _iterate_files(member: Member) -> Iterator[tuple[str, Holder]]:
    """Yield the path in the archive and the bytes of each file."""
    for attachment in _list_files(member).iterator(chunk_size=1):
        yield f"files/{attachment.pk}/{_name_in_archive(attachment.name)}", attachment.file
    for file in _list_project_files(member).iterator(chunk_size=1):
        yield f"project-files/{file.pk}/{_name_in_archive(file.name)}", file.content


def _name_in_archive(name: str) -> str:
    """Return a name without folders, which an archive could otherwise unpack anywhere."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return "file" if last in {"", ".."} else last


def _list_files(member: Member) -> QuerySet[Attachment]:
    """Return what the member uploaded. Content read from a service is in the chat."""
    uploaded = Attachment.objects.filter(owner=member, file__isnull=False)
    return uploaded.select_related("file__stored").order_by("pk")


def _list_project_files(member: Member) -> QuerySet[ProjectFile]:
    """Return what the member added to the projects that they are in."""
    joined = Project.filter_joined(member).order_by().values("pk")
    added = ProjectFile.objects.filter(added_by=member, project__in=joined)
    return added.select_related("content__stored").order_by("pk")


def _describe_account(member: Member) -> dict[str, Any]:
    connected = SocialAccount.objects.filter(user=member)
    return {
        "username": member.username,
        "first_name": member.first_name,
        "last_name": member.last_name,
        "email": member.email,
        "time_zone": member.time_zone,
        "joined_at": member.date_joined,
        "groups": list(member.groups.values_list("name", flat=True)),
        "directory_id": DirectoryAccount.objects.filter(member=member)
        .values_list("external_id", flat=True)
        .first()
        or "",
        "directory_groups": list(member.directory_groups.values_list("display_name", flat=True)),
        "sign_in_providers": list(connected.values("provider", "uid", "extra_data")),
    }


def _dump(value: Any) -> str:
    return json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=True, indent=2)


def close_account(member: Member) -> None:
    """Deactivate the account at once and take all ways in. Entries of the log stay, with the
    username. `delete_rows` deletes the rest. Raises Refused for the last admin."""
    with transaction.atomic():
        if lock_last_admin(member):
            raise Refused(_("You are the last admin. Make another member an admin first."), 409)
        member.first_name = member.last_name = member.email = ""
        lock_out(member)
        entries.write(LogEntry.Kind.ACCOUNT_CLOSED, member)
        for model in (SocialAccount, EmailAddress):
            model._default_manager.filter(user=member).delete()
        DirectoryAccount.objects.filter(member=member).update(external_id="")


def delete_rows(member: Member) -> None:
    """Delete what is the own of a person who closed their account. It may run twice: a process may
    stop on the way, and a request that was under way may store something afterwards.

    Chats go in two steps: now they are out of reach and their answers stop, and the job that
    removes deleted chats removes their rows. A project that others can edit goes to one of them.
    """
    if not member.is_active:
        chats = Conversation.objects.filter(owner=member)
        for conversation in chats.filter(deleted_at=None).select_related("owner"):
            chat_list.delete(conversation)
        chats.update(deleted_at=Now() - RESTORABLE)
        project_members.leave_all(member)
        _delete_rows(
            Attachment.objects.filter(owner=member, part=None),
            CodeUse.objects.filter(member=member),
            *(model._default_manager.filter(person=member) for model in OF_PERSON),
            *(model._default_manager.filter(owner=member) for model in OF_OWNER),
            StandIn.objects.filter(Q(approver=member) | Q(stand_in=member)),
        )
        for service in Service.objects.filter(owner=member):
            service.delete()


def _delete_rows(*selections: Iterable[Any]) -> None:
    """Delete each of these selections in a transaction of its own."""
    for rows in selections:
        with transaction.atomic():
            rows.delete()  # type: ignore[attr-defined]  # each is a query set
