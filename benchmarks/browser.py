"""Whether a page keeps up with a long answer: the tasks that blocked a tab of a real browser.

Run `python -m benchmarks.browser [--chunks 5000] [--rate 40]`. Chromium shows the page of a chat
while an answer of some 10,000 tokens arrives. A task of 50 ms or more is a long task
(https://www.w3.org/TR/longtasks/): meanwhile the tab answers no key and no click. A task of 120 ms
that the benchmark itself runs must be noticed. Run it on a machine that does nothing else.
"""

import argparse
import asyncio
import tempfile
import uuid
from pathlib import Path

from playwright.async_api import Page, async_playwright

from chatapp.providers.estimate import count_text_tokens
from tests.flows.browser import ARGUMENTS, find_chromium
from tests.flows.server import database

from .fast_model import MAX_CHUNKS, make_chunk
from .machine import read_tree_seconds
from .relay import RATE, SETTLE_SECONDS, run_model
from .report import Figure, print_figures, read_options
from .tabs import WORDS, Reading
from .targets import Ours, OurTab, open_ours

PLANTED_MS = 120
OBSERVE = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
  }).observe({ type: "longtask" });
}"""
# From a timer: what a debugger evaluates is no task of the page.
BLOCK = """(time) => setTimeout(() => {
  const end = performance.now() + time;
  while (performance.now() < end);
})"""
TAKE_TASKS = "() => window.longTasks.splice(0)"


async def measure(ours: Ours, chunks: int, rate: int) -> list[Figure]:
    """Show one answer in Chromium and return what blocked the tab."""
    tab = await ours.open_tab()
    assert isinstance(tab, OurTab)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        page = await browser.new_page(base_url=ours.address)
        cookies = (pair.strip().split("=", 1) for pair in ours.cookies.split(";"))
        await page.context.add_cookies(
            [{"name": name, "value": value, "url": ours.address} for name, value in cookies]
        )
        await page.goto(f"/c/{tab.conversation}/")
        await page.evaluate(OBSERVE)
        await check_observer(page)
        before = read_tree_seconds(ours.pid)
        reading = Reading(key=uuid.uuid4().hex, chunks=chunks)
        await tab.read_answer(reading, rate)
        assert reading.is_whole, "The answer did not come whole."
        await asyncio.sleep(SETTLE_SECONDS)
        tasks = await page.evaluate(TAKE_TASKS)
        text = await page.evaluate("() => document.body.textContent")
        assert WORDS[0] in text and WORDS[chunks - 1] in text, "The page lacks some text."
        server = read_tree_seconds(ours.pid) - before
        await browser.close()
    tab.close()
    tokens = count_text_tokens("".join(map(make_chunk, range(chunks))))
    return [
        ("tokens of the answer", tokens, "tokens"),
        ("chunks a second", rate, "chunks"),
        ("tasks of 50 ms or more", len(tasks), "tasks"),
        ("longest of them", max(tasks, default=0.0), "ms"),
        ("blocked by them", sum(tasks), "ms"),
        ("CPU of the server meanwhile", server, "s"),
    ]


async def check_observer(page: Page) -> None:
    """Raise AssertionError if a long task is not noticed."""
    await page.evaluate(BLOCK, PLANTED_MS)
    await asyncio.sleep(SETTLE_SECONDS)
    tasks = await page.evaluate(TAKE_TASKS)
    assert tasks and max(tasks) >= PLANTED_MS, f"The planted task was not noticed: {tasks}"


async def run(options: argparse.Namespace, folder: Path, database_url: str) -> list[Figure]:
    with run_model() as model_url:
        async with open_ours(folder, model_url, database_url) as ours:
            return await measure(ours, options.chunks, options.rate)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browser", description=__doc__)
    parser.add_argument("--chunks", type=int, default=MAX_CHUNKS)
    parser.add_argument("--rate", type=int, default=RATE)
    options = read_options(parser, chunks=40)
    with tempfile.TemporaryDirectory() as folder, database("sqlite", Path(folder)) as url:
        figures = asyncio.run(run(options, Path(folder), url))
    print_figures("a long answer in a browser", figures)


if __name__ == "__main__":
    main()
