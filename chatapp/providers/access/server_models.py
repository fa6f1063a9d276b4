"""The models of the compatible server that `OPENAI_BASE_URL` names, as the server lists them.

The list is read before a page offers models, within two seconds and four megabytes, and kept for a
minute. No SDK is loaded for it.
"""

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field

import httpx2
from django.db import connection
from django.utils.translation import gettext as _

from chatapp.providers import environment
from chatapp.providers.account import Account, ListedModel
from chatapp.providers.connections import get_tls_context
from chatapp.providers.events import ProviderError
from chatapp.providers.openai.listing import read_models
from chatapp.server.runtime import current_runtime

KIND = "openai-chat"
LIST_SECONDS = 2.0
# The time that a thread gets to end after the deadline. Only a lookup of a name takes longer.
END_SECONDS = 0.5
LIST_BYTES = 4_000_000
KEPT_SECONDS = 60.0
# After a failure the pages do not wait for the same server again at once.
KEPT_FAILED_SECONDS = 10.0
MAX_MODELS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerList:
    """What the server listed last. `problem` says why nothing newer came, or nothing at all."""

    models: tuple[ListedModel, ...] = ()
    problem: ProviderError | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class ListKeeper:
    """The last list of one account, in the runtime of the process."""

    account: Account
    known: ServerList = ServerList()
    expires_at: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


def read_list() -> ServerList:
    """Return the models of the server, asked again when they are a minute old.

    While the server does not answer, the models that it listed before are kept. Only one thread
    asks; the others use these models, and wait only if there are none yet.
    """
    try:
        account = environment.read_account(KIND)
    except ProviderError as error:
        return ServerList(problem=error)
    keeper = _find_keeper(account)
    if not keeper.lock.acquire(blocking=not keeper.known.models):
        return keeper.known
    try:
        if time.monotonic() >= keeper.expires_at:
            keeper.known = _ask(account, keeper.known)
            kept = KEPT_FAILED_SECONDS if keeper.known.problem else KEPT_SECONDS
            keeper.expires_at = time.monotonic() + kept
        return keeper.known
    finally:
        keeper.lock.release()


def find_listed(kind: str, name: str) -> ListedModel | None:
    """Return what the server listed about this model.

    The server is asked only if this process has no list yet, and never inside a transaction, which
    would stay open meanwhile.
    """
    models = list_known(kind)
    if not models and _may_ask(kind):
        models = read_list().models
    return next((model for model in models if model.name == name), None)


def list_known(kind: str) -> tuple[ListedModel, ...]:
    """Return the models that the server listed before. The server is not asked."""
    keeper = current_runtime().server_list
    if kind != KIND or not isinstance(keeper, ListKeeper) or not _is_current(keeper):
        return ()
    return keeper.known.models


def _may_ask(kind: str) -> bool:
    return kind == KIND and environment.is_offered(kind) and not connection.in_atomic_block


def _is_current(keeper: ListKeeper) -> bool:
    try:
        return keeper.account == environment.read_account(KIND)
    except ProviderError:
        return False


def _find_keeper(account: Account) -> ListKeeper:
    runtime = current_runtime()
    keeper = runtime.server_list
    if not isinstance(keeper, ListKeeper) or keeper.account != account:
        keeper = runtime.server_list = ListKeeper(account=account)
    return keeper


def _ask(account: Account, before: ServerList) -> ServerList:
    try:
        models = read_models(json.loads(_fetch(account)))
    except httpx2.HTTPStatusError as error:
        return ServerList(models=before.models, problem=_explain_status(error, account))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return ServerList(models=before.models, problem=_explain(account, repr(error)))
    except (ValueError, RecursionError):
        models = None
    if models is None:
        sentence = _("The response is not a list of models.")
        return ServerList(models=before.models, problem=_explain(account, sentence))
    if not models:
        problem = ProviderError(
            kind="not_found",
            message=_("%(server)s lists no chat models.") % {"server": _begin_sentence(account)},
            hint=_("Load a model there, or name one: openai-chat:NAME."),
        )
        return ServerList(problem=problem)
    return ServerList(models=models[:MAX_MODELS])


def _fetch(account: Account) -> bytes:
    """Return the document of the list, or raise an error of httpx2.

    A client's timeout is for each read. So the request runs in a thread with a deadline for all of
    it. A lookup of a host name cannot be cancelled, so its thread may end later.
    """
    found: list[bytes | BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(_fetch_in_time(account)))
        except BaseException as error:  # raised again in the thread that waits
            found.append(error)

    thread = threading.Thread(target=run, name="model-list", daemon=True)
    thread.start()
    thread.join(LIST_SECONDS + END_SECONDS)
    answer = found[0] if found else TimeoutError()
    if isinstance(answer, TimeoutError):
        raise httpx2.ReadTimeout(f"the list took longer than {LIST_SECONDS:g} s")
    if isinstance(answer, BaseException):
        raise answer
    return answer


async def _fetch_in_time(account: Account) -> bytes:
    headers = {"user-agent": "Countersign", "accept": "application/json", **dict(account.headers)}
    # A small compressed answer can become a very large one.
    headers["accept-encoding"] = "identity"
    if account.key:
        headers["authorization"] = f"Bearer {account.key}"
    address = f"{account.base_url.rstrip('/')}/models"
    found = bytearray()
    async with (
        asyncio.timeout(LIST_SECONDS),
        httpx2.AsyncClient(
            verify=get_tls_context(), timeout=LIST_SECONDS, follow_redirects=False
        ) as client,
        client.stream("GET", address, headers=headers) as answer,
    ):
        if not answer.is_success:
            raise httpx2.HTTPStatusError(
                f"status {answer.status_code}", request=answer.request, response=answer
            )
        if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.RequestError("the list is compressed")
        async for piece in answer.aiter_raw():
            found += piece
            if len(found) > LIST_BYTES:
                raise httpx2.RequestError(f"the list is larger than {LIST_BYTES:,} bytes")
    return bytes(found)


def _explain_status(error: httpx2.HTTPStatusError, account: Account) -> ProviderError:
    status = error.response.status_code
    if status in {401, 403}:
        return ProviderError(
            kind="auth",
            message=_("%(server)s refused the key.") % {"server": _begin_sentence(account)},
            hint=_("An admin can correct OPENAI_API_KEY."),
        )
    if status == 404:
        return _explain(account, _("It answered 404. Most addresses end in /v1."))
    return _explain(account, _("It answered %(status)s.") % {"status": status})


def _explain(account: Account, detail: str) -> ProviderError:
    hint = _(
        "An admin can check the server and OPENAI_BASE_URL. "
        "You can also name a model: openai-chat:NAME."
    )
    return ProviderError(
        kind="network",
        message=_("%(server)s did not list its models.") % {"server": _begin_sentence(account)},
        hint=f"{detail} {hint}" if detail.endswith(".") else hint,
        detail=account.mask_secrets(detail),
    )


def _begin_sentence(account: Account) -> str:
    label = account.names.label
    return label[:1].upper() + label[1:]
