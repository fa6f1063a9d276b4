"""Rows of one member, the owner, for the sweep over all addresses: one of each thing that an
address or a form can name. Their texts contain MARK, by which a page that shows one of them is
recognised."""

import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db.models import F
from django.test import Client
from django.utils import timezone

from chatapp.accounts import directory
from chatapp.api import access_tokens
from chatapp.approvals import reminders
from chatapp.background import jobs
from chatapp.context import withheld_results
from chatapp.conversations.assistant_pictures import store_picture
from chatapp.models import (
    AccessToken,
    Allowance,
    AnswerFeedback,
    App,
    AppContents,
    Assistant,
    Attachment,
    ChatImport,
    ChatModel,
    Consent,
    Conversation,
    DirectoryGroup,
    DirectoryToken,
    EmbeddingSettings,
    Guidance,
    HousePolicy,
    Invitation,
    Member,
    Memory,
    ModelProvider,
    Notification,
    Part,
    PolicyRule,
    PolicyTest,
    Project,
    ProjectFile,
    ProjectFileData,
    ProjectMember,
    ProjectPassage,
    ProviderDraft,
    PushDevice,
    Question,
    Reminder,
    Review,
    SavedPrompt,
    SecondSignature,
    SharedLink,
    SignInLink,
    StandIn,
    Summary,
    ToolCall,
    ToolLimit,
    Trial,
    Turn,
    UsageOfDay,
    Webhook,
)
from chatapp.notifications import links as notification_links
from chatapp.notifications import push_keys
from chatapp.policy_changes import drafting
from chatapp.rendering.pages import fragments
from chatapp.sharing import links
from chatapp.sharing.tokens import make_token
from mcpconfig.models import (
    Exchange,
    IdentityProvider,
    OAuthAttempt,
    Service,
    ServiceDraft,
    ToolDefinition,
)

from .chatapp.rendering.cards.test_question_form import form
from .turns import rows

MARK = "Plum-7f3c"
# Private addresses are refused before anything is sent to them, so no test needs the network.
URL = "https://127.0.0.1:1/mcp"
PIXEL = "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="
RESULT: dict[str, Any] = {
    "content": [
        {"type": "image", "data": PIXEL, "mimeType": "image/gif"},
        {"type": "resource_link", "uri": "notes://1", "name": MARK},
    ],
    "structured": None,
    "is_error": False,
}
TABLE_RESULT: dict[str, Any] = {
    "content": [],
    "structured": [{"place": MARK, "count": 2}, {"place": "Berlin", "count": 3}],
    "is_error": False,
}
TABLE = f"| place | count |\n|---|--:|\n| {MARK} | 2 |\n| Berlin | 3 |"
CODE = f"```html\n<p>{MARK}</p>\n```"
State = ToolCall.State


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The people, and the ids of the owner's rows by a word for each."""

    owner: Member
    stranger: Member
    admin: Member
    ids: dict[str, Any]
    token: str
    token_without_scopes: str
    token_of_stranger: str
    token_of_directory: str

    def people_without_rights(self) -> dict[str, Member]:
        """Those who may not see anything of the owner's."""
        return {"a stranger": self.stranger, "an admin": self.admin}

    def unknown(self, word: str) -> object:
        """An id of the same form that nothing has."""
        match self.ids[word]:
            case uuid.UUID():
                return uuid.uuid4()
            case int(known):
                return known + 1_000_000
            case _:
                return "unknown"


def build_world(owner: Member, stranger: Member, admin: Member) -> World:
    _directory_token, directory_text = directory.create_token("Entra")
    directory_group = DirectoryGroup.objects.create(display_name=MARK)
    HousePolicy(lets_add_services=True).save()
    EmbeddingSettings(dimensions=256).save()
    token, text = access_tokens.create(owner, name=MARK, scopes=("tools", "chat"), days=7)
    _mcp_token, mcp_text = access_tokens.create(owner, name=MARK, scopes=("mcp",), days=7)
    _other, stranger_text = access_tokens.create(
        stranger, name="Job", scopes=("tools", "chat"), days=7
    )
    # Each use is noted once a minute; a noted one leaves the rows as they are.
    AccessToken.objects.update(last_used_at=timezone.now())
    DirectoryToken.objects.update(last_used_at=timezone.now())
    return World(
        owner=owner,
        stranger=stranger,
        admin=admin,
        ids={
            **_ids_of_services(owner),
            **_ids_of_calls(owner, token),
            **_ids_of_own_pages(owner),
            **_ids_of_admin_pages(owner),
            "service_draft": ServiceDraft.objects.create(person=admin).pk,
            "provider_draft": ProviderDraft.objects.create(person=admin).pk,
            **_ids_of_projects(owner),
            "token": token.pk,
            "sign_in_link": SignInLink.issue(owner),
            "invitation": _issue_invitation(admin),
            "model": rows.MODEL,
            "core_tool": "current-time",
            "admin_app": "chatapp",
            "member": owner.pk,
            "kind_of_things": "permissions",
            "directory_group": directory_group.pk,
            "resource_type": "User",
            "schema": "urn:ietf:params:scim:schemas:core:2.0:User",
        },
        token=text,
        token_without_scopes=mcp_text,
        token_of_stranger=stranger_text,
        token_of_directory=directory_text,
    )


def _ids_of_services(owner: Member) -> dict[str, Any]:
    """Services that only the owner may use, as they added them; one with a sign-in of its own."""
    private = {"owner": owner, "added_by": owner, "visibility": Service.Visibility.PRIVATE}
    own = Service.objects.create(name="garden", title=MARK, url=URL, **private)
    signed_in = Service.objects.create(
        name="vault", title=MARK, url=URL, authentication="oauth_user", **private
    )
    company = IdentityProvider.objects.create(name="acme", title="Acme", issuer=URL)
    Guidance.objects.create(person=owner, service=own, text=MARK)
    OAuthAttempt.objects.create(
        service=signed_in,
        person=owner,
        identity_provider=company,
        state_hash="s" * 64,
        session_hash="s" * 64,
        verifier=b"",
        endpoint=URL,
        issuer=URL,
        expires_at=timezone.now() + timedelta(minutes=5),
    )
    return {
        "own_service": own.name,
        "sign_in_service": signed_in.name,
        "sign_in_service_pk": signed_in.pk,
        "company": company.name,
    }


def _ids_of_calls(owner: Member, token: AccessToken) -> dict[str, Any]:
    """A chat for each state that a form answers, because a chat has one live turn."""
    tomorrow = timezone.now() + timedelta(days=1)
    definition = rows.definition()

    def new_call(state: str, **values: Any) -> ToolCall:
        turn = rows.turn(owner, text=MARK)
        return rows.call(turn, {"title": MARK}, state, definition=definition, **values)

    waiting = rows.question(rows.turn(owner, text=MARK), {"title": MARK}, definition=definition)
    together = rows.question(rows.turn(owner, text=MARK), {"title": MARK}, definition=definition)
    reviewed = new_call(State.SUCCEEDED, result=RESULT)
    Review.objects.create(
        tool_call=reviewed,
        binding=withheld_results.hash_result(ToolCall.objects.get(pk=reviewed.pk)),
        expires_at=tomorrow,
    )
    asking = new_call(State.AWAITING_INPUT)
    question = Question.objects.create(
        tool_call=asking, round=1, requests=[form().to_json()], expires_at=tomorrow
    )
    of_program = rows.turn(owner, Turn.State.DONE, text=MARK)
    Turn.objects.filter(pk=of_program.pk).update(token=token, model="")
    due = {"sent_at": timezone.now(), "expires_at": tomorrow}
    reminder = Reminder.objects.create(person=owner, call=waiting, thing="approval", **due)
    shown_at = fragments.sign_shown_at(together.pk, time.time() - 5)
    return {
        **_ids_of_app(owner),
        **_ids_of_chats(owner),
        "waiting_call": waiting.pk,
        "unknown_call": new_call(State.UNKNOWN, attempt=1).pk,
        "reviewed_call": reviewed.pk,
        "review_binding": reviewed.review.binding,
        "running_call": new_call(State.SENDING).pk,
        "sign_in_call": new_call(State.AWAITING_SIGN_IN).pk,
        "result_call": new_call(State.SUCCEEDED, result=RESULT).pk,
        "table_call": new_call(State.SUCCEEDED, result=TABLE_RESULT).pk,
        "picture": 0,
        "link": 1,
        "together_chat": together.turn.conversation_id,
        "shown_together": f"{together.pk} {rows.BINDING} {shown_at}",
        "question": question.pk,
        "program_call": rows.call(of_program, {"title": MARK}, result=RESULT).pk,
        "notification_token": _build_notification(waiting),
        "mail_token": reminders.build_link(reminder).rstrip("/").rpartition("/")[2],
    }


def _build_notification(call: ToolCall) -> str:
    chat_id = call.turn.conversation_id
    told = Notification.objects.create(conversation_id=chat_id, call=call, thing="approval")
    return notification_links.build_link(told).rstrip("/").rpartition("/")[2]


def _ids_of_chats(owner: Member) -> dict[str, Any]:
    """Chats by what can be done with them, and what is attached to messages."""
    chat = rows.turn(owner, Turn.State.DONE, text=MARK)
    failed = rows.turn(owner, Turn.State.FAILED, text=MARK)
    running = rows.turn(owner, Turn.State.RUNNING, text=MARK)
    cut = rows.turn(owner, Turn.State.DONE, text=MARK, reason="length")
    for turn in (chat, failed, cut):
        rows.said(turn, f"The answer about {MARK}.")
    AnswerFeedback.objects.create(message=chat.answer, is_good=True, comment=MARK, model=rows.MODEL)
    notice = rows.said(chat, MARK, kind=Part.Kind.NOTICE, notice_kind=Part.NoticeKind.SUMMARY)
    summary = Summary.objects.create(
        conversation=chat.conversation, part=notice, turns=1, text=MARK, model=rows.MODEL
    )
    attachment = Attachment.objects.create(
        owner=owner,
        service_name="garden",
        uri="notes://1",
        name=MARK,
        size=1,
        hash="a" * 64,
        contents=[{"uri": "notes://1", "blob": PIXEL, "mimeType": "image/gif"}],
    )
    spare, deleted, edited, answered, switched, forked = (
        rows.turn(owner, Turn.State.DONE, text=MARK) for _ in range(6)
    )
    shown_to_all = rows.turn(owner, Turn.State.DONE, text="Shared with all members")
    shared, revoked = (_share(shown_to_all) for _ in range(2))
    waiting, taken, removed = (
        running.conversation.queued_messages.create(text=MARK, model=rows.MODEL) for _ in range(3)
    )
    Conversation.objects.filter(pk=deleted.conversation_id).update(deleted_at=timezone.now())
    # The first page of a chat stores that it was read.
    Conversation.objects.filter(owner=owner).update(read_at=F("active_at"))
    table = rows.said(chat, f"{TABLE}\n\n{CODE}\n")
    return {
        "chat": chat.conversation_id,
        "message": chat.question_id,
        "answer_with_table": chat.answer_id,
        "table_step": table.step,
        "code_number": 1,
        "table_position": table.position,
        "table_number": 0,
        "rated_answer": chat.answer_id,
        "edited_chat": edited.conversation_id,
        "edited_message": edited.question_id,
        "answered_chat": answered.conversation_id,
        "answered_message": answered.question_id,
        "forked_chat": forked.conversation_id,
        "forked_answer": forked.answer_id,
        "switched_chat": switched.conversation_id,
        "switched_message": switched.question_id,
        "spare_chat": spare.conversation_id,
        "deleted_chat": deleted.conversation_id,
        "shared_chat": shown_to_all.conversation_id,
        "shared_link": shared.pk,
        "revoked_link": revoked.pk,
        "shared_token": make_token(shared.pk),
        "failed_chat": failed.conversation_id,
        "running_chat": running.conversation_id,
        "queued_message": waiting.pk,
        "taken_message": taken.pk,
        "removed_message": removed.pk,
        "cut_chat": cut.conversation_id,
        "summary": summary.pk,
        "attachment": attachment.pk,
    }


def _share(turn: Turn) -> SharedLink:
    choices = links.Choices(
        audience=SharedLink.Audience.MEMBERS,
        tools=SharedLink.Tools.FULL,
        includes_files=True,
        days=None,
    )
    return links.create(turn.conversation, choices)


def _ids_of_app(owner: Member) -> dict[str, Any]:
    """A call that shows an app, and one that the app asked for."""
    gallery = Service.objects.create(
        name="gallery", url=URL, allows_apps=True, visibility="everyone"
    )
    show, _read = (
        ToolDefinition.objects.create(service=gallery, hash=name, name=name, meta=meta)
        for name, meta in (("show", {"ui": {"resourceUri": "ui://gallery/plain"}}), ("read", {}))
    )
    of_gallery: dict[str, Any] = {"service": gallery, "definition": show, "tool_name": "show"}
    turn = rows.turn(owner, Turn.State.DONE, text=MARK)
    shown = rows.call(turn, {"title": MARK}, result=RESULT, tool_id="gallery_show", **of_gallery)
    contents = AppContents.objects.create(hash="a" * 64, html=MARK)
    App.objects.create(tool_call=shown, contents=contents, uri="ui://gallery/plain")
    made = rows.turn(owner, Turn.State.DONE, text=MARK, app_of=shown)
    return {"app_call": shown.pk, "made_call": rows.call(made, result=RESULT).pk}


def _ids_of_own_pages(owner: Member) -> dict[str, Any]:
    today = timezone.localdate()
    operations = Group.objects.create(name="Operations")
    owner.groups.add(operations)
    SecondSignature.objects.create(name="Operations", approvers=operations)
    colleague = Member.objects.create_user(f"colleague-{MARK}", password="colleague-password")
    stand_in = StandIn.objects.create(
        approver=owner, stand_in=colleague, begins_on=today, ends_on=today + timedelta(days=7)
    )
    consent = Consent.objects.create(
        person=owner,
        service=rows.service(),
        endpoint=rows.service().endpoint,
        scope=Consent.Scope.TOOL,
        definitions={f"tool-{MARK}": "h"},
    )
    UsageOfDay.objects.create(person=owner, day=today, model=f"demo:{MARK}", calls=1)
    saved = [
        SavedPrompt.objects.create(owner=owner, title=MARK, text=f"{MARK} {{{{a}}}}") for _ in "ab"
    ]
    assistants = [
        Assistant.objects.create(owner=owner, name=MARK, instructions=MARK, starters=[MARK])
        for _ in "ab"
    ]
    store_picture(assistants[0], f"RIFF....WEBP{MARK}".encode())
    states = ("ready", "refused", "done")
    imported = [
        ChatImport.objects.create(
            person=owner, file_name=MARK, size=1, source="ChatGPT", state=state, problem=MARK
        )
        for state in states
    ]
    provider = SocialAccount.objects.create(user=owner, provider="gone", uid=MARK)
    browser = Client()
    browser.force_login(owner)
    device = UserSession.objects.create(
        user=owner, session_key=browser.session.session_key, ip="127.0.0.1", user_agent="x"
    )
    key = push_keys.make_key()
    devices = [
        PushDevice.objects.create(
            person=owner, key=key, address_hash=each * 64, session_key="gone", name=MARK
        )
        for each in "ab"
    ]
    return {
        "push_device": devices[0].pk,
        "spare_push_device": devices[1].pk,
        "import": imported[0].pk,
        "refused_import": imported[1].pk,
        "done_import": imported[2].pk,
        # A session without a recent sign-in does not come as far as the row.
        "passkey": device.pk,
        "provider_account": provider.pk,
        "device": device.pk,
        "no_provider": "nowhere",
        "prompt": saved[0].pk,
        "spare_prompt": saved[1].pk,
        "assistant": assistants[0].pk,
        "spare_assistant": assistants[1].pk,
        "picture_hash": assistants[0].picture_hash,
        "memory": Memory.objects.create(person=owner, text=MARK).pk,
        "stand_in": stand_in.pk,
        "consent": consent.pk,
    }


def _ids_of_projects(owner: Member) -> dict[str, Any]:
    def new_project(**values: Any) -> Project:
        return Project.objects.create(owner=owner, name=MARK, instructions=MARK, **values)

    def new_member(name: str) -> int:
        person = Member.objects.create_user(f"{name}-{MARK}", password="member-password")
        ProjectMember.objects.create(project=project, person=person)
        return person.pk

    project = new_project(description=MARK)
    files = []
    for _ in "ab":
        file = ProjectFile.objects.create(
            project=project, added_by=owner, name=f"{MARK}.txt", size=4, state="ready"
        )
        ProjectFileData.objects.create(file=file, data=MARK.encode())
        ProjectPassage.objects.create(file=file, number=1, text=MARK)
        files.append(file)
    return {
        "project": project.pk,
        "archived_project": new_project().pk,
        "spare_project": new_project().pk,
        "deleted_project": new_project(deleted_at=timezone.now()).pk,
        "project_member": new_member("first"),
        "leaving_member": new_member("second"),
        "project_file": files[0].pk,
        "spare_project_file": files[1].pk,
    }


def _ids_of_admin_pages(owner: Member) -> dict[str, Any]:
    """A row of each thing that only admins have pages of."""
    provider = ModelProvider.objects.create(
        slug="local", kind="openai-chat", label="Local", base_url=URL, key_place="none"
    )
    ChatModel.objects.create(provider=provider, name="small")
    service = Service.objects.create(name="shop", url=URL, visibility="everyone")
    definition = ToolDefinition.objects.create(
        service=service, hash="d" * 64, name="buy", input_schema={"type": "object"}
    )
    trial = Trial.objects.create(
        person=owner,
        service=service,
        definition=definition,
        tool_id="shop_buy",
        tool_name="buy",
        arguments="{}",
        risk="high",
        state=State.SUCCEEDED,
        result=RESULT,
    )
    exchange = Exchange.objects.create(
        service=service, operation="list_tools", operation_id=uuid.uuid4(), method="POST"
    )
    Allowance.objects.create(person=owner, tokens=1_000_000_000)
    PolicyRule.objects.create(name="Ask", effect="ask", tool="buy")
    PolicyTest.objects.create(
        name="Asks", person=owner, service=service, tool="buy", expected="ask"
    )
    limit = ToolLimit.objects.create(tool="buy", calls=100)
    change = drafting.start(owner, "No limit")
    drafting.store_edit(change, owner, "limit", limit.pk, None)
    Webhook.objects.create(name="Operations", format="slack", host="hooks.example")
    jobs.prune_events.enqueue()
    return {
        "provider": provider.pk,
        "service": service.pk,
        "definition": definition.hash,
        "trial": trial.pk,
        "member": owner.pk,
        "content_type": ContentType.objects.get_for_model(Member).pk,
        "operation": exchange.operation_id,
    }


def _issue_invitation(admin: Member) -> str:
    """The token of an invitation that is open."""
    invitation = Invitation(email=f"{MARK}@example.com", invited_by=admin)
    token = invitation.set_token()
    invitation.save()
    return token
