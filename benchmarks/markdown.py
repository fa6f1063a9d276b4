"""What rendering Markdown costs per token: in frames while it streams, and as a whole.

Run `python -m benchmarks.markdown`. The figures are CPU time of this process, so other load does
not count.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import count

from chatapp.rendering.markdown.blocks import divide_blocks, render_division
from chatapp.rendering.markdown.stream import MarkdownStream

from .report import Figure, print_figures, read_options

CHARS_PER_TOKEN = 4
TOKENS_PER_FRAME = 4  # 100 tokens a second, 25 frames a second
TARGET_RATIO = 2.0

_PROSE = (
    "## Section {n}\n\n"
    "The **pool** was exhausted at `{n}` connections, which is *less* than the limit says. "
    "See [the report](https://status.example/{n}) for the figures, and note that $x^{n}$ grows.\n\n"
    "- first, the workers wait for connection {n} and the queue behind them grows\n"
    "- second, the load balancer takes {n} for dead\n"
    "  - and restarts them, number {n}\n"
    "- third, everything {n} begins again\n\n"
    "| hour | requests | failed |\n|---|--:|--:|\n| {n} | 1,204 | 3 |\n| 11 | 1,377 | 41 |\n\n"
    "After that the rate of {n} falls. Nothing in the log explains it, which is the point.\n\n"
)
_CODE_LINE = "    total_{n} = retry(lambda: fetch({n}, timeout=2.5), attempts=3)  # as before\n"


def write_sections() -> Iterator[str]:
    """Yield an endless answer: prose, lists, tables, and a code block after every third section."""
    for number in count(10):
        yield _PROSE.replace("{n}", str(number))
        if number % 3 == 0:
            lines = "".join(_CODE_LINE.replace("{n}", f"{number}{n}") for n in range(30))
            yield f"```python\ndef work_{number}() -> None:\n{lines}```\n\n"


def write_answer(tokens: int) -> str:
    size = tokens * CHARS_PER_TOKEN
    text = ""
    for section in write_sections():
        text += section
        if len(text) >= size:
            break
    return text[:size]


def measure_stream(text: str) -> float:
    """CPU time of all frames and the end of one streamed answer."""
    step = CHARS_PER_TOKEN * TOKENS_PER_FRAME
    stream = MarkdownStream()
    started = time.process_time()
    for start in range(0, len(text), step):
        stream.feed(text[start : start + step])
        stream.frame()
    stream.finish()
    return time.process_time() - started


def measure_whole(text: str) -> float:
    """CPU time of one answer that is rendered as a whole."""
    started = time.process_time()
    render_division(text, divide_blocks(text), {})
    return time.process_time() - started


def measure_frame_of_long_list(chars: int) -> float:
    """CPU time of one frame while a list of this size is open, which is the worst usual case."""
    item = "- worker {n} waits for a `connection` and the **queue** behind it grows\n"
    stream = MarkdownStream()
    stream.feed("".join(item.replace("{n}", str(n)) for n in range(chars // len(item))))
    stream.frame()
    started = time.process_time()
    for word in ["- and ", "one ", "more ", "item\n"]:
        stream.feed(word)
        stream.frame()
    return (time.process_time() - started) / 4


def measure(sizes: list[int], list_sizes: list[int]) -> Iterator[Figure]:
    costs = {}
    measure_stream("```python\nx = 1\n```\n")  # what a process pays once
    for tokens in sizes:
        text = write_answer(tokens)
        streamed, whole = measure_stream(text), measure_whole(text)
        costs[tokens] = streamed / tokens
        yield f"a token of {tokens:,}, streamed", costs[tokens] * 1e6, "µs"
        yield f"a token of {tokens:,}, as a whole", whole / tokens * 1e6, "µs"
    ratio = costs[sizes[-1]] / costs[sizes[0]]
    yield f"a token of {sizes[-1]:,} against one of {sizes[0]:,}", ratio, f"× (≤ {TARGET_RATIO:g})"
    for characters in list_sizes:
        frame_ms = measure_frame_of_long_list(characters) * 1e3
        yield f"a frame in an open list of {characters:,} characters", frame_ms, "ms"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markdown", description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1_000, 3_000, 10_000])
    parser.add_argument("--characters", type=int, nargs="+", default=[4_000, 16_000, 39_000])
    options = read_options(parser, tokens=[100, 200], characters=[500])
    print_figures("rendering Markdown", measure(options.tokens, options.characters))


if __name__ == "__main__":
    main()
