"""What a streamed chunk costs in each adapter, compared with the bare stream of its SDK.

Run `python -m benchmarks.providers [FORM …] [--streams 40] [--chunks 200] [--rounds 3]`. CPU is the
time of this process, all threads included. The model server runs in a process of its own and
answers all at the pace of a model. `socket` sends the request of the adapter and drops the bytes as
they arrive, `SDK` drops the SDK's events, `adapter` drops ours, and `draft` is the whole way to the
group commit. Their rounds alternate, and the best of each counts, so that other load does not
matter. The exit code is 1 where an adapter costs more than MOST times its SDK; with `--smoke` it is
not, because so few chunks show nothing.
"""

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import uvloop

from chatapp.engine.model_call import AnswerReader
from chatapp.journal.group_commit import TICK_SECONDS, Draft, GroupCommit
from chatapp.journal.lease import Lease
from chatapp.providers.access.model_choice import ChosenModel
from chatapp.providers.access.observed_calls import ObservedCall
from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.registry import load_provider
from chatapp.providers.request import ModelRequest, UserMessage
from tests.wire.formats import FORMATS
from tests.wire.http import LAST_CHUNK

from .bare_streams import READERS, Read, open_reader
from .model import ModelServer
from .report import print_figures, read_options

MOST = 1.3
NAMES = ProviderNames(label="the model server", key_variable="KEY", url_variable="URL")
REQUEST = ModelRequest(model="bench", system="", history=(UserMessage(text="Hello"),))


def create_account(form: str, url: str) -> Account:
    return Account(
        names=NAMES,
        base_url=url.removesuffix("/v1") + FORMATS[form].root,
        key="no-secret",
        key_id="nobody" if form == "bedrock" else "",
        region="eu-central-1",
    )


@asynccontextmanager
async def open_adapter(form: str, account: Account, _: int) -> AsyncIterator[Read]:
    provider = await load_provider(form)

    async def read() -> None:
        async for _event in provider.stream(REQUEST, account):
            pass

    yield read


@asynccontextmanager
async def open_draft(form: str, account: Account, _: int) -> AsyncIterator[Read]:
    """Read with the adapter into drafts, which are emptied as often as the group commit does."""
    provider = await load_provider(form)

    async def read() -> None:
        lease = Lease(turn_id=uuid.uuid4(), conversation_id=uuid.uuid4(), owner="", fence=1)
        draft = Draft(lease=lease, message_id=uuid.uuid4(), step=1, attempt=1)
        reader = AnswerReader(draft=draft, commit=GroupCommit())
        observed = ObservedCall(ChosenModel(kind=form, name="bench", account=account), "answer")
        emptying = asyncio.create_task(_empty(draft))
        events = reader.meter.read(REQUEST, provider.stream(REQUEST, account), observed)
        async with aclosing(events):
            async for event in events:
                reader.read(event)
        emptying.cancel()

    yield read


async def _empty(draft: Draft) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        draft.take()


@asynccontextmanager
async def open_socket(model: ModelServer) -> AsyncIterator[Read]:
    """Send the last request again, without an HTTP library."""
    address = urlsplit(model.url)
    sent = httpx2.get(f"http://{address.netloc}/_wire/requests", trust_env=False).json()[-1]
    request = _build_request(sent)

    async def read() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(request)
        while not (await reader.read(65_536)).endswith(LAST_CHUNK):
            pass
        writer.close()

    yield read


def _build_request(sent: dict[str, Any]) -> bytes:
    body = json.dumps(sent["body"]).encode()
    headers = {**sent["headers"], "content-length": str(len(body))}
    query = "".join(f"?{name}={value}" for name, value in sent["query"].items())
    lines = [f"POST {sent['path']}{query} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def measure_chunk(read: Read, streams: int, chunks: int) -> float:
    """CPU of one chunk in microseconds, when so many streams run at once."""
    started = time.process_time()
    await asyncio.gather(*(read() for _ in range(streams)))
    return (time.process_time() - started) / (streams * chunks) * 1_000_000


async def compare(model: ModelServer, form: str, options: argparse.Namespace) -> dict[str, float]:
    """Microseconds of a chunk of this form, for each way to read it."""
    account, streams = create_account(form, model.url), options.streams
    async with AsyncExitStack() as stack:
        ways = {
            "SDK": await stack.enter_async_context(open_reader(form, account, streams)),
            "adapter": await stack.enter_async_context(open_adapter(form, account, streams)),
            "draft": await stack.enter_async_context(open_draft(form, account, streams)),
        }
        for read in ways.values():
            await _measure(model, read, 1, 5)  # what only the first request pays
        ways["socket"] = await stack.enter_async_context(open_socket(model))
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(options.rounds):
            for name, read in ways.items():
                cost = await _measure(model, read, streams, options.chunks)
                best[name] = min(best[name], cost)
    return best


async def _measure(model: ModelServer, read: Read, streams: int, chunks: int) -> float:
    await asyncio.to_thread(model.prepare_answers, streams, chunks)
    return await measure_chunk(read, streams, chunks)


async def run(options: argparse.Namespace) -> float:
    """Print the figures of each form; the highest ratio of them."""
    ratios = []
    with ModelServer() as model:
        for form in options.forms or READERS:
            cost = await compare(model, form, options)
            ratios.append(cost["adapter"] / cost["SDK"])
            each = [(f"a chunk, {name}", microseconds, "µs") for name, microseconds in cost.items()]
            print_figures(form, [*each, ("ratio of the two", ratios[-1], f"× (≤ {MOST})")])
    return max(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.providers", description=__doc__)
    parser.add_argument("forms", nargs="*", choices=[[], *READERS], metavar="FORM")
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = read_options(parser, streams=2, chunks=10, rounds=1)
    ratio = uvloop.run(run(options))
    parser.exit(0 if ratio <= MOST or options.smoke else 1)


if __name__ == "__main__":
    main()
