"""What a streamed chunk costs in each adapter, against its SDK's bare stream in the same run.

Run `python -m benchmarks.providers [FORM …] [--streams 40] [--chunks 200] [--rounds 3]`. CPU is
this process's own time, all threads included; the model server runs in a process of its own and
answers both alike, at the pace of a model. The rounds alternate, and the best of each counts, so
that a busy machine spoils neither.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import uvloop

from benchmarks.bare_streams import READERS, Read, reader
from benchmarks.model import ModelServer
from chatapp.providers.account import Account
from chatapp.providers.failures import ProviderNames
from chatapp.providers.registry import provider_module
from chatapp.providers.request import ModelRequest, UserMessage
from tests.wire.formats import FORMATS

MOST = 1.3
NAMES = ProviderNames(label="the model server", key_variable="KEY", url_variable="URL")
REQUEST = ModelRequest(model="bench", system="", history=(UserMessage(text="Hello"),))


def account_at(form: str, url: str) -> Account:
    return Account(
        names=NAMES,
        base_url=url.removesuffix("/v1") + FORMATS[form].root,
        key="no-secret",
        key_id="nobody" if form == "bedrock" else "",
        region="eu-central-1",
    )


@asynccontextmanager
async def adapter(form: str, account: Account, _: int) -> AsyncIterator[Read]:
    provider = await provider_module(form)

    async def read() -> None:
        async for _event in provider.stream(REQUEST, account):
            pass

    yield read


async def microseconds(read: Read, streams: int, chunks: int) -> float:
    """CPU of one chunk, when so many streams run at once."""
    began = time.process_time()
    await asyncio.gather(*(read() for _ in range(streams)))
    return (time.process_time() - began) / (streams * chunks) * 1_000_000


async def compared(model: ModelServer, form: str, options: argparse.Namespace) -> float:
    """Print what one form costs; returns how many times the SDK's own cost that is."""
    account = account_at(form, model.url)
    best = {"bare": float("inf"), "ours": float("inf")}
    async with (
        reader(form, account, options.streams) as bare,
        adapter(form, account, options.streams) as ours,
    ):
        for read in (bare, ours):
            await _measured(model, read, 1, 5)  # what only the first request pays
        for _ in range(options.rounds):
            for name, read in {"bare": bare, "ours": ours}.items():
                cost = await _measured(model, read, options.streams, options.chunks)
                best[name] = min(best[name], cost)
    ratio = best["ours"] / best["bare"]
    print(f"{form:12} {best['bare']:7.0f} µs {best['ours']:7.0f} µs {ratio:6.2f}×", flush=True)
    return ratio


async def _measured(model: ModelServer, read: Read, streams: int, chunks: int) -> float:
    await asyncio.to_thread(model.load, streams, chunks)
    return await microseconds(read, streams, chunks)


async def run(options: argparse.Namespace) -> bool:
    print(f"{'':12} {'SDK':>10} {'adapter':>10}")
    with tempfile.TemporaryDirectory() as folder, ModelServer(Path(folder)) as model:
        ratios = [await compared(model, form, options) for form in options.forms or READERS]
    return max(ratios) <= MOST


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.providers", description=__doc__)
    parser.add_argument("forms", nargs="*", choices=[[], *READERS], metavar="FORM")
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.exit(0 if uvloop.run(run(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
