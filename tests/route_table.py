"""Every address of the project: its methods, who may open it, and the rows that it names.

An address that is not in here makes a test fail, so that a new page is closed until somebody has
said who may open it. Not in here are the sockets (`/ws/…`: tests of the consumers) and the MCP
faces, which `chatapp/asgi.py` mounts beside Django's addresses (`tests/chatapp/views/api`).
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from .route_world import URL, World
from .turns import rows


class Access(Enum):
    """Who may open an address. To all others than ANYBODY's a person is asked to sign in."""

    ANYBODY = auto()
    # Each member has a page of their own here, with nothing of somebody else's.
    MEMBER = auto()
    # The rows that the address or the form names belong to one member; for all others, admins
    # included, there is nothing.
    OWNER = auto()
    # Programs with an access token; a session counts for nothing.
    PROGRAM = auto()
    # A company's directory with a token of its own; a session and an access token count for
    # nothing.
    DIRECTORY = auto()


Form = Callable[[World], Mapping[str, Any] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One address by its name. `ids` says which row of the world each part of the address names,
    and `form_ids` does so for fields of the form; `form` is all else that is sent, as text where it
    is JSON. The numbers are the statuses of answers: to the owner by GET and by POST (to anybody
    for ANYBODY), to somebody else with these ids, and to the owner with unknown ids."""

    methods: str
    access: Access
    ids: Mapping[str, str] = field(default_factory=dict)
    form_ids: Mapping[str, str] = field(default_factory=dict)
    form: Form = lambda _world: {}
    get: int = 200
    post: int = 302
    stranger: int = 404
    unknown: int = 404
    # Whether a browser may keep the answer with the status of `get`.
    is_kept: bool = False
    # Statuses for rows that may be gone when a button is pressed: a sentence beside the form.
    gone: Mapping[str, int] = field(default_factory=dict)


def page(*, methods: str = "GET HEAD", **more: Any) -> Route:
    """A page that each member has."""
    return Route(methods=methods, access=Access.MEMBER, **more)


def button(**more: Any) -> Route:
    """A form that each member can send, about rows of their own."""
    return Route(methods="POST", access=Access.MEMBER, **more)


def own_page(*, methods: str = "GET HEAD", **more: Any) -> Route:
    """A page about a row of one member."""
    return Route(methods=methods, access=Access.OWNER, **more)


def own_button(**more: Any) -> Route:
    """A form about a row of one member."""
    return Route(methods="POST", access=Access.OWNER, **more)


def face(*, methods: str = "GET", **more: Any) -> Route:
    """An address for programs."""
    return Route(methods=methods, access=Access.PROGRAM, **more)


def directory(*, methods: str, **more: Any) -> Route:
    """An address for a company's directory, which sends JSON."""
    return Route(
        methods=methods, access=Access.DIRECTORY, form=lambda _world: "{}", post=400, **more
    )


def public(*, methods: str, **more: Any) -> Route:
    return Route(methods=methods, access=Access.ANYBODY, **more)


def sent(**fields: Any) -> Form:
    return lambda _world: fields


CHAT = {"conversation_id": "chat"}
TABLE = {
    "message_id": "answer_with_table",
    "step": "table_step",
    "position": "table_position",
    "number": "table_number",
}
CODE = TABLE | {"number": "code_number"}
APP = {"call_id": "app_call"}
OWN_SERVICE = {"name": "own_service"}
SIGN_IN_SERVICE = {"name": "sign_in_service"}
# Steps of adding something to a message of a chat, about a service that cannot be reached: they say
# so with 422.
OF_SERVICE = {"chat": "chat", "service": "own_service"}
STARTED = {"assistant": "assistant"}
ASSISTANT = sent(name="Review", tools="all", who="owner")
PROMPT = sent(title="Greeting", text="Hello, {{name}}", who="owner")
IN_PROJECT = {"project_id": "project"}
PROJECT = sent(name="Checkout", tools="all")
MESSAGE = sent(text="Hello", model=rows.MODEL)
DENIAL = sent(decision="deny", version=rows.BINDING)


def new_service(_world: World) -> dict[str, Any]:
    name = f"service-{uuid.uuid4().hex}"
    return {"name": name, "title": "Another", "url": URL, "authentication": "none"}


def batch(world: World) -> dict[str, Any]:
    return {"decision": "deny", "shown": world.ids["shown_together"]}


def verdict(world: World) -> dict[str, Any]:
    return {"decision": "hold", "version": world.ids["review_binding"]}


# Pages that ask a session without a recent sign-in to confirm it, whatever the address names.
RECENT = page(methods="GET HEAD POST", get=302)
RECENT_PAGE = page(get=302)
RECENT_OWN = own_page(
    methods="GET HEAD POST", ids={"pk": "passkey"}, get=302, stranger=302, unknown=302
)


ROUTES: dict[str, Route] = {
    # Chats
    "home": page(),
    "sidebar": page(methods="GET"),
    "hide-sidebar": button(form=sent(hidden="yes"), post=204),
    "send-first": button(
        form=MESSAGE, form_ids={"attachments": "attachment"}, stranger=422, unknown=422
    ),
    "conversation": own_page(ids=CHAT),
    "send": own_button(ids=CHAT, form=MESSAGE),
    "stop": own_button(ids={"conversation_id": "running_chat"}),
    "mode": own_button(ids=CHAT, form=sent(mode="plan")),
    "ask-again": own_button(ids={"conversation_id": "failed_chat"}, post=200),
    "edit-message": own_page(
        methods="GET POST",
        ids={"conversation_id": "edited_chat", "message_id": "edited_message"},
        form=sent(text="Hello"),
    ),
    "answer-again": own_button(
        ids={"conversation_id": "answered_chat", "message_id": "answered_message"}, post=200
    ),
    "rate-answer": own_button(
        ids={"conversation_id": "chat", "message_id": "rated_answer"},
        form=sent(rating="bad", comment="Too long."),
    ),
    "fork-chat": own_button(ids={"conversation_id": "forked_chat", "message_id": "forked_answer"}),
    "show-version": own_button(
        ids={"conversation_id": "switched_chat"},
        form_ids={"message": "switched_message"},
    ),
    "send-queued": own_button(
        ids={"conversation_id": "running_chat", "message_id": "queued_message"},
        post=200,
        gone={"queued_message": 409},
    ),
    "edit-queued": own_button(
        ids={"conversation_id": "running_chat", "message_id": "taken_message"},
        gone={"taken_message": 409},
    ),
    "remove-queued": own_button(
        ids={"conversation_id": "running_chat", "message_id": "removed_message"},
        post=200,
        gone={"removed_message": 409},
    ),
    "go-on": own_button(ids={"conversation_id": "cut_chat"}, post=200),
    "draft": own_button(form_ids={"chat": "chat"}, form=sent(text="Hello"), post=204),
    "row-menu": own_page(ids=CHAT, methods="GET"),
    "rename-chat": own_button(ids=CHAT, form=sent(title="Renamed")),
    "chat-instructions": own_page(
        methods="GET HEAD POST", ids=CHAT, form=sent(text="Answer in German.")
    ),
    "pin-chat": own_button(ids=CHAT, form=sent(pin="yes")),
    "archive-chat": own_button(ids=CHAT, form=sent(archive="yes")),
    "keep-chat": own_button(ids=CHAT),
    "delete-chat": own_button(ids={"conversation_id": "spare_chat"}),
    "restore-chat": own_button(ids={"conversation_id": "deleted_chat"}),
    "export-chat": own_page(ids=CHAT),
    "print-chat": own_page(ids=CHAT),
    "share-chat": own_page(
        methods="GET HEAD POST",
        ids={"conversation_id": "shared_chat"},
        form=sent(audience="members", tools="full", days="7"),
    ),
    "shared-links": page(),
    "update-shared-link": own_button(ids={"link_id": "shared_link"}),
    "revoke-shared-link": own_button(ids={"link_id": "revoked_link"}),
    # A link for people here: each member may open it and make a copy, nobody else.
    "shared-chat": public(methods="GET HEAD", ids={"token": "shared_token"}, get=404),
    "shared-file": public(
        methods="GET HEAD",
        ids={"token": "shared_token", "attachment_id": "attachment"},
        get=404,
    ),
    "continue-shared-chat": page(methods="GET HEAD POST", ids={"token": "shared_token"}, post=302),
    "imports": page(methods="GET HEAD POST", post=422),
    "import": own_page(
        methods="GET HEAD POST", ids={"import_id": "import"}, form=sent(do="none"), post=302
    ),
    "discard-import": own_button(ids={"import_id": "refused_import"}),
    "undo-import": own_button(ids={"import_id": "done_import"}),
    "archived-chats": page(methods="GET"),
    "palette": page(methods="GET"),
    "search": page(
        methods="GET POST",
        form_ids={"chat": "chat"},
        form=sent(do="unread"),
        stranger=422,
        unknown=422,
    ),
    "open-message": own_page(methods="GET", ids={"message_id": "message"}, get=302),
    "message-text": own_page(methods="GET", ids={"message_id": "message"}),
    "answer-figure": own_page(ids=TABLE),
    "answer-chart": own_page(ids=TABLE),
    "answer-preview": own_page(ids=CODE),
    "answer-page": own_page(ids=CODE),
    "use-summary": own_button(ids={"summary_id": "summary"}),
    # Approvals
    "approvals": page(),
    "mail": button(),
    "decide-together": own_button(form_ids={"chat": "together_chat"}, form=batch),
    "from-mail": own_page(methods="GET", ids={"token": "mail_token"}, get=302),
    "approval": own_page(ids={"call_id": "waiting_call"}),
    "decide": own_button(ids={"call_id": "waiting_call"}, form=DENIAL),
    "resolve": own_button(ids={"call_id": "unknown_call"}, form=sent(verdict="worked")),
    "review": own_button(ids={"call_id": "reviewed_call"}, form=verdict),
    "cancel": own_button(ids={"call_id": "running_call"}),
    "decline-sign-in": own_button(ids={"call_id": "sign_in_call"}),
    "answer": own_button(ids={"question_id": "question"}, form=sent(action="decline")),
    "consents": page(methods="GET"),
    "revoke-consent": own_button(ids={"consent_id": "consent"}),
    # Only for members who sign for others; the owner is one.
    "stand-ins": own_page(methods="GET POST", post=422),
    "remove-stand-in": own_button(ids={"stand_in_id": "stand_in"}, stranger=302, unknown=302),
    # Results, attachments and apps
    "call-content": own_page(ids={"call_id": "result_call", "index": "picture"}),
    "result-table": own_page(ids={"call_id": "table_call"}),
    "result-chart": own_page(ids={"call_id": "table_call"}),
    "open-link": own_button(ids={"call_id": "result_call", "index": "link"}, post=409),
    "attachment": own_page(ids={"attachment_id": "attachment"}),
    "attachment-content": own_page(ids={"attachment_id": "attachment", "index": "picture"}),
    "app": own_page(methods="GET", ids=APP),
    "app-told": own_page(methods="GET", ids=APP),
    "app-call": own_button(ids=APP, form=lambda _world: '{"name": "read"}', post=202),
    "app-called": own_page(methods="GET", ids=APP | {"made_id": "made_call"}),
    # The message box
    "tools": page(methods="GET HEAD POST", form_ids={"chat": "chat"}, post=200),
    "tools-found": own_button(form_ids={"chat": "chat"}, form=sent(scope="chat"), post=200),
    "tools-switch": own_button(
        form_ids={"chat": "chat"}, form=sent(on="our.own/current-time"), post=200
    ),
    "models": button(post=200),
    "models-found": button(post=200),
    "choose-model": own_button(form_ids={"chat": "chat"}, form=sent(chosen=rows.MODEL), post=200),
    "attach": button(post=200),
    "attach-back": own_button(form_ids={"chat": "chat"}, post=200),
    "attach-add": own_button(form_ids={"chat": "chat"}, post=200),
    "attach-complete": own_button(form_ids=OF_SERVICE, post=200),
    "attach-files": own_button(form_ids={"chat": "chat"}, post=200),
    "attach-resources": own_button(form_ids=OF_SERVICE, post=422),
    "attach-template": own_button(form_ids={"service": "own_service"}, post=200),
    "attach-read": own_button(form_ids=OF_SERVICE, post=422),
    "attach-prompts": own_button(form_ids=OF_SERVICE, post=422),
    "attach-prompt": own_button(form_ids=OF_SERVICE, form=sent(prompt="sum"), post=422),
    "attach-fill": own_button(form_ids=OF_SERVICE, form=sent(prompt="sum"), post=422),
    "attach-use": own_button(form_ids={"chat": "chat"}, post=200),
    "attach-typed": button(form=sent(text="/garden"), post=200),
    "attach-saved": own_button(form_ids={"chat": "chat"}, post=200),
    "attach-saved-form": own_button(
        form_ids={"saved": "prompt"}, post=200, stranger=422, unknown=422
    ),
    "attach-saved-fill": own_button(
        form_ids={"saved": "prompt"}, post=422, stranger=422, unknown=422
    ),
    "attach-starter": own_button(
        form_ids=STARTED, form=sent(starter="1"), post=200, stranger=422, unknown=422
    ),
    # Assistants and saved prompts; the world's are their owner's alone
    "assistants": page(),
    "add-assistant": page(methods="GET HEAD POST", form=ASSISTANT),
    "edit-assistant": own_page(
        methods="GET HEAD POST", ids={"assistant_id": "assistant"}, form=ASSISTANT
    ),
    "duplicate-assistant": own_button(ids={"assistant_id": "assistant"}),
    "delete-assistant": own_button(ids={"assistant_id": "spare_assistant"}),
    "assistant-picture": own_page(
        ids={"assistant_id": "assistant", "picture_hash": "picture_hash"}, is_kept=True
    ),
    "prompts": page(),
    "add-prompt": page(methods="GET HEAD POST", form=PROMPT),
    "edit-prompt": own_page(methods="GET HEAD POST", ids={"prompt_id": "prompt"}, form=PROMPT),
    "delete-prompt": own_button(ids={"prompt_id": "spare_prompt"}),
    # Projects; the owner of the world owns its own, and a member of them is neither other person
    "projects": page(),
    "add-project": page(methods="GET HEAD POST", form=PROJECT),
    "project": own_page(ids=IN_PROJECT),
    "edit-project": own_page(methods="GET HEAD POST", ids=IN_PROJECT, form=PROJECT),
    "archive-project": own_button(ids={"project_id": "archived_project"}),
    "delete-project": own_button(ids={"project_id": "spare_project"}),
    "restore-project": own_button(ids={"project_id": "deleted_project"}),
    "add-project-member": own_button(
        ids=IN_PROJECT, form=sent(username="", role="member"), post=422
    ),
    "change-project-member": own_button(
        ids={**IN_PROJECT, "person_id": "project_member"}, form=sent(role="editor")
    ),
    "remove-project-member": own_button(ids={**IN_PROJECT, "person_id": "leaving_member"}),
    "project-files": own_page(methods="GET HEAD POST", ids=IN_PROJECT, get=302, post=422),
    "project-file": own_page(ids={**IN_PROJECT, "file_id": "project_file"}),
    "download-project-file": own_page(ids={**IN_PROJECT, "file_id": "project_file"}),
    "delete-project-file": own_button(ids={**IN_PROJECT, "file_id": "spare_project_file"}),
    "move-chat": own_page(
        methods="GET HEAD POST", ids=CHAT, form_ids={"project": "project"}, gone={"project": 409}
    ),
    # A member's own pages
    "usage": page(methods="GET"),
    "language": page(methods="GET POST", post=422),
    "log": page(methods="GET"),
    "memory": page(methods="GET POST", form=sent(text="Another fact"), post=302),
    "change-memory": own_button(ids={"memory_id": "memory"}, form=sent(text="A fact")),
    "forget-memory": own_button(ids={"memory_id": "memory"}),
    "tokens": page(methods="GET POST", post=422),
    "revoke-token": own_button(ids={"token_id": "token"}),
    "settings": page(),
    "mfa_index": page(),
    "mfa_list_webauthn": page(),
    "save-profile": button(form=sent(email="x"), post=422),
    "save-appearance": button(form=sent(theme="x"), post=422),
    "end-session": own_button(ids={"session_id": "device"}),
    "end-other-sessions": button(),
    "save-notifications": button(),
    "add-push-device": button(form=sent(subscription="x"), post=422),
    "notify-from-pages": button(),
    "test-push-device": own_button(ids={"device_id": "push_device"}),
    "remove-push-device": own_button(ids={"device_id": "spare_push_device"}),
    "from-notification": own_page(methods="GET", ids={"token": "notification_token"}, get=302),
    "second-factor": page(get=302),
    # A session without a recent sign-in is asked for one first.
    "account_reauthenticate": page(methods="GET HEAD POST", form=sent(password="x"), post=422),
    "mfa_reauthenticate": RECENT,
    "mfa_reauthenticate_webauthn": RECENT,
    "mfa_activate_totp": RECENT,
    "mfa_deactivate_totp": RECENT,
    "mfa_view_recovery_codes": RECENT_PAGE,
    "mfa_generate_recovery_codes": RECENT,
    "mfa_download_recovery_codes": RECENT_PAGE,
    "mfa_add_webauthn": RECENT,
    "mfa_edit_webauthn": RECENT_OWN,
    "mfa_remove_webauthn": RECENT_OWN,
    "connect-ldap": page(methods="GET HEAD POST", get=302, post=302),
    "disconnect-provider": own_button(ids={"account_id": "provider_account"}),
    "download-data": button(),
    "delete-account": page(methods="GET HEAD POST", get=302, post=302),
    "set-password": page(methods="GET HEAD POST", form=sent(old_password="x"), post=422),
    # Services
    "services": page(),
    "add-own-service": page(methods="GET HEAD POST", form=new_service),
    "own-service": own_page(ids=OWN_SERVICE),
    "change-own-service": own_page(methods="GET HEAD POST", ids=OWN_SERVICE, form=new_service),
    "test-own-service": own_button(ids=OWN_SERVICE),
    "guidance": own_page(methods="GET HEAD POST", ids=OWN_SERVICE, form=sent(text="Be brief.")),
    "remove-own-service": own_button(ids=OWN_SERVICE),
    "connect": own_button(ids=SIGN_IN_SERVICE, form_ids={"call": "sign_in_call"}, post=409),
    "connected": own_page(methods="GET", ids=SIGN_IN_SERVICE, get=409),
    "connected-unnamed": own_page(methods="GET", ids={"pk": "sign_in_service_pk"}, get=409),
    "disconnect": own_button(ids=SIGN_IN_SERVICE),
    # Every member may come back from a company's sign-in, if they began one.
    "signed-in": own_page(methods="GET", ids={"name": "company"}, get=409, stranger=409),
    # Programs
    "api-tools": face(),
    "api-tool": face(
        methods="GET POST", ids={"name": "core_tool"}, form=sent(zone="UTC"), post=415, stranger=200
    ),
    "api-call": face(ids={"call_id": "program_call"}),
    "api-openapi": face(),
    "v1-models": face(),
    "v1-model": face(ids={"name": "model"}, stranger=200),
    "v1-completions": face(methods="POST", post=415),
    # Directories
    "scim-users": directory(methods="GET POST"),
    "scim-user": directory(methods="GET PUT PATCH DELETE", ids={"user_id": "member"}),
    "scim-groups": directory(methods="GET POST"),
    "scim-group": directory(methods="GET PUT PATCH DELETE", ids={"group_id": "directory_group"}),
    "scim-service": directory(methods="GET"),
    "scim-resource-types": directory(methods="GET"),
    "scim-resource-type": directory(methods="GET", ids={"name": "resource_type"}),
    "scim-schemas": directory(methods="GET"),
    "scim-schema": directory(methods="GET", ids={"urn": "schema"}),
    # Everybody
    "client-document": public(methods="GET HEAD"),
    "sign-in": public(methods="GET HEAD POST", form=sent(username="x"), post=422),
    # There is no provider of this kind in the world.
    "saml-acs": public(methods="POST", ids={"provider_id": "no_provider"}, post=404),
    "saml-finish": public(methods="GET", ids={"provider_id": "no_provider"}, get=404),
    "saml-metadata": public(methods="GET", ids={"provider_id": "no_provider"}, get=404),
    "sign-in-by-link": public(
        methods="GET HEAD POST", ids={"token": "sign_in_link"}, post=302, unknown=410
    ),
    "invitation": public(
        methods="GET HEAD POST",
        ids={"token": "invitation"},
        form=sent(username=""),
        post=422,
        unknown=410,
    ),
    "sign-out": public(methods="POST"),
    "account_login": public(methods="GET HEAD POST", form=sent(username="x"), post=422),
    "account_logout": public(methods="POST"),
    "account_inactive": public(methods="GET HEAD", get=403),
    # Without a password that was right, there is nothing to enter a code for.
    "mfa_authenticate": public(methods="GET HEAD POST", get=302),
    "mfa_login_webauthn": public(methods="GET HEAD POST", get=302),
    "provider-start": public(methods="GET", ids={"provider_id": "no_provider"}, get=404),
    "provider-callback": public(methods="GET", ids={"provider_id": "no_provider"}, get=404),
    "manifest": public(methods="GET HEAD"),
    "worker": public(methods="GET HEAD"),
    "healthz": public(methods="GET HEAD"),
    "readyz": public(methods="GET HEAD"),
    # Nobody by a browser, as the world of this sweep is behind a proxy; programs with the token.
    "metrics": public(methods="GET HEAD", get=401),
}

# The admin's pages beside a list, an add form, a change form, a history and a delete form for each
# thing: what each part of their addresses names. They are for admins who have the right to change
# the thing; members, and admins without that right, are refused.
PROVIDER = {"pk": "provider"}
SERVICE = {"pk": "service"}
TRIAL = SERVICE | {"trial_id": "trial"}
ADMIN_PAGES: dict[str, Mapping[str, str]] = {
    "app_list": {"app_label": "admin_app"},
    "autocomplete": {},
    "view_on_site": {"content_type_id": "content_type", "object_id": "member"},
    "auth_user_password_change": {"id": "member"},
    "chatapp_member_person": {"pk": "member"},
    "chatapp_member_things": {"pk": "member", "kind": "kind_of_things"},
    "chatapp_member_off_board": {"pk": "member"},
    "chatapp_conversation_open": CHAT,
    "chatapp_conversation_evidence": CHAT,
    "chatapp_modelprovider_tools": {},
    "chatapp_modelprovider_look": {},
    "chatapp_modelprovider_add_server": {},
    "chatapp_modelprovider_test": PROVIDER,
    "chatapp_modelprovider_fetch": PROVIDER,
    "chatapp_modelprovider_add": PROVIDER,
    "chatapp_modelprovider_answer": PROVIDER,
    "chatapp_modelprovider_connect": {},
    "chatapp_modelprovider_connect_draft": {"draft_id": "provider_draft"},
    "chatapp_embeddingsettings_test": {},
    "hide_need": {},
    "find": {},
    "policy_simulator": {},
    "policy_questions": {},
    "policy_who_can": {},
    "policy_as_person": {},
    "checks": {},
    "system": {},
    "system_settings": {},
    "system_keys": {},
    "mcpconfig_service_health": {},
    "mcpconfig_service_import": {},
    "mcpconfig_service_export": {},
    "mcpconfig_service_connect": {},
    "mcpconfig_service_unused": {},
    "mcpconfig_service_connect_draft": {"draft_id": "service_draft"},
    "mcpconfig_service_test": SERVICE,
    "mcpconfig_service_retry": SERVICE,
    "mcpconfig_service_fetch_tools": SERVICE,
    "mcpconfig_service_confirm_tools": SERVICE,
    "mcpconfig_service_tools": SERVICE,
    "mcpconfig_service_review_tools": SERVICE,
    "mcpconfig_service_act_on_tools": SERVICE,
    "mcpconfig_service_switch": SERVICE,
    "mcpconfig_service_status": SERVICE,
    "mcpconfig_service_people": SERVICE,
    "mcpconfig_service_changes": SERVICE,
    "mcpconfig_exchange_operation": {"operation_id": "operation"},
    "mcpconfig_service_try": SERVICE | {"definition_hash": "definition"},
    "mcpconfig_service_trial": TRIAL,
    "mcpconfig_service_trial_content": TRIAL | {"index": "picture"},
    "mcpconfig_service_resources": SERVICE,
    "mcpconfig_service_prompts": SERVICE,
    "mcpconfig_service_prompt": SERVICE,
    "mcpconfig_service_sign_ins": SERVICE,
    "mcpconfig_service_revoke": SERVICE,
    "mcpconfig_service_forget_registration": SERVICE,
}
# What an admin without any rights may open.
ADMIN_PAGES_WITHOUT_RIGHTS = {
    *("index", "live", "hide_need", "find"),
    *("login", "logout", "password_change", "password_change_done", "jsi18n"),
}
