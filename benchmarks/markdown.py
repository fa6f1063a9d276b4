"""What rendering Markdown costs per token: in frames while it streams, and as a whole.

Run `python -m benchmarks.markdown`. CPU time of this process, so other load does not count.
"""

import time
from collections.abc import Iterator
from itertools import count

from chatapp.rendering.blocks import divide, division_to_html
from chatapp.rendering.markdown import MarkdownStream

CHARS_PER_TOKEN = 4
TOKENS_PER_FRAME = 4  # 100 tokens a second, 25 frames a second
SIZES = (1_000, 3_000, 10_000)
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


def sections() -> Iterator[str]:
    """An endless answer: prose, lists, tables, and a code block after every third section."""
    for number in count(10):
        yield _PROSE.replace("{n}", str(number))
        if number % 3 == 0:
            lines = "".join(_CODE_LINE.replace("{n}", f"{number}{n}") for n in range(30))
            yield f"```python\ndef work_{number}() -> None:\n{lines}```\n\n"


def answer(tokens: int) -> str:
    size = tokens * CHARS_PER_TOKEN
    text = ""
    for section in sections():
        text += section
        if len(text) >= size:
            break
    return text[:size]


def stream_seconds(text: str) -> float:
    """CPU time of all frames and the end of one streamed answer."""
    step = CHARS_PER_TOKEN * TOKENS_PER_FRAME
    stream = MarkdownStream()
    started = time.process_time()
    for start in range(0, len(text), step):
        stream.feed(text[start : start + step])
        stream.frame()
    stream.finish()
    return time.process_time() - started


def whole_seconds(text: str) -> float:
    started = time.process_time()
    division_to_html(text, divide(text), {})
    return time.process_time() - started


def long_block_frame_seconds(chars: int) -> float:
    """CPU time of one frame while a single list of this size is open, the worst usual case."""
    item = "- worker {n} waits for a `connection` and the **queue** behind it grows\n"
    stream = MarkdownStream()
    stream.feed("".join(item.replace("{n}", str(n)) for n in range(chars // len(item))))
    stream.frame()
    started = time.process_time()
    for word in ["- and ", "one ", "more ", "item\n"]:
        stream.feed(word)
        stream.frame()
    return (time.process_time() - started) / 4


def main() -> None:
    print(f"{'tokens':>8} {'stream ms':>10} {'us/token':>9} {'whole ms':>9} {'us/token':>9}")
    costs = {}
    stream_seconds("```python\nx = 1\n```\n")  # what is only paid once a process
    for tokens in SIZES:
        text = answer(tokens)
        streamed, whole = stream_seconds(text), whole_seconds(text)
        costs[tokens] = streamed / tokens
        print(
            f"{tokens:>8,} {streamed * 1e3:>10.1f} {costs[tokens] * 1e6:>9.1f}"
            f" {whole * 1e3:>9.1f} {whole / tokens * 1e6:>9.1f}"
        )
    ratio = costs[SIZES[-1]] / costs[SIZES[0]]
    verdict = "ok" if ratio <= TARGET_RATIO else "NOT LINEAR"
    print(f"cost of a token at {SIZES[-1]:,} against {SIZES[0]:,}: {ratio:.2f} ({verdict})")
    for chars in (4_000, 16_000, 39_000):
        print(
            f"one frame in an open list of {chars:,} characters: "
            f"{long_block_frame_seconds(chars) * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
