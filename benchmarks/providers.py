"""What a streamed chunk costs in each adapter, compared with the bare stream of its SDK.

Run `python -m benchmarks.providers [FORM …] [--streams 40] [--chunks 200] [--rounds 3]`. CPU is the
time of this process, all threads included. The model server runs in a process of its own and
answers both at the pace of a model. The rounds of both alternate, and the best of each counts, so
that other load does not matter. The exit code is 1 where an adapter costs more than MOST times its
SDK; with `--smoke` it is not, because so few chunks show nothing.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.registry import load_provider
from chatapp.providers.request import ModelRequest, UserMessage
from tests.wire.formats import FORMATS

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


async def measure_chunk(read: Read, streams: int, chunks: int) -> float:
    """CPU of one chunk in microseconds, when so many streams run at once."""
    started = time.process_time()
    await asyncio.gather(*(read() for _ in range(streams)))
    return (time.process_time() - started) / (streams * chunks) * 1_000_000


async def compare(model: ModelServer, form: str, options: argparse.Namespace) -> dict[str, float]:
    """Microseconds of a chunk of this form: of the SDK alone, and of the adapter."""
    account = create_account(form, model.url)
    best = {"SDK": float("inf"), "adapter": float("inf")}
    async with (
        open_reader(form, account, options.streams) as sdk,
        open_adapter(form, account, options.streams) as adapter,
    ):
        for read in (sdk, adapter):
            await _measure(model, read, 1, 5)  # what only the first request pays
        for _ in range(options.rounds):
            for name, read in {"SDK": sdk, "adapter": adapter}.items():
                cost = await _measure(model, read, options.streams, options.chunks)
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
