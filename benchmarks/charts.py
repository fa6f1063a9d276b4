"""The tables and the charts of docs/performance.md, from the file that the relay benchmark wrote.

Run `python -m benchmarks.relay --json docs/performance.json`, then `python -m benchmarks.charts`.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from .report import print_figures, read_options

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs/performance.json"
PAGE = ROOT / "docs/performance.md"
PICTURES = ROOT / "docs/pictures"
NAMES = {"ours": "Countersign", "bare": "bare relay", "chainlit": "Chainlit"}
COLOURS = {"ours": "#2f7d5b", "bare": "#8a8f98", "chainlit": "#b8742c"}
PIVOTED = "answers at once"
COSTS, REST = "costs apart", "at rest, ours"
# A person who works with it sends a message in so many seconds, with so many chunks in its answer.
PAUSE_SECONDS, CHUNKS = 120, 400
# How much of a core may be used, and what is left for pages, tools and peaks.
USED = 1 / 3
PEOPLE = (10, 50, 200, 500)
Figures = dict[str, tuple[float, str]]
Kept = dict[str, Any]


def read_kept(path: Path = SOURCE) -> Kept:
    kept: Kept = json.loads(path.read_text())
    return kept


# --- tables ------------------------------------------------------------------------------------
def format_number(number: float, unit: str) -> str:
    digits = 0 if abs(number) >= 100 or number == int(number) else 1 if abs(number) >= 10 else 2
    return f"{number:,.{digits}f} {unit}"


def split_name(what: str) -> tuple[str, str]:
    """Return the server that a figure is of, and the rest of its name."""
    name, _, rest = what.partition(": ")
    return (name, rest) if name in NAMES else ("", what)


def list_targets(figures: Figures) -> list[str]:
    found = {split_name(what)[0] for what in figures}
    return [name for name in NAMES if name in found]


def render_section(figures: Figures) -> str:
    """Return a table with a column for each server, then the figures that are of several."""
    targets = list_targets(figures)
    names = list(dict.fromkeys(split_name(what)[1] for what in figures if split_name(what)[0]))
    lines = []
    if targets:
        lines += ["| | " + " | ".join(NAMES[each] for each in targets) + " |"]
        lines += ["|---|" + "--:|" * len(targets)]
    for name in names:
        cells = [figures.get(f"{target}: {name}") for target in targets]
        shown = " | ".join(format_number(*cell) if cell else "" for cell in cells)
        lines.append(f"| {name} | {shown} |")
    others = [what for what in figures if not split_name(what)[0]]
    if others:
        lines += ["", "| | |", "|---|--:|"] if targets else ["| | |", "|---|--:|"]
        lines += [f"| {what} | {format_number(*figures[what])} |" for what in others]
    return "\n".join(lines) + "\n"


def render_sizing(kept: Kept) -> str:
    """Return a table of the cores and the memory that so many people at work need."""
    costs, rest = kept["figures"][COSTS], kept["figures"][REST]
    message = costs["ours: CPU of a message without its chunks"][0]
    chunk = costs["ours: CPU of 1,000 more chunks"][0] / 1_000
    warm = rest["memory after the first answer"][0]
    page = rest.get("memory of an open page", (0.0, "KB"))[0] / 1_024
    lines = ["| people at work | cores | memory, one page each |", "|--:|--:|--:|"]
    for people in PEOPLE:
        cores = people * (message + CHUNKS * chunk) / 1_000 / PAUSE_SECONDS / USED
        lines.append(f"| {people} | {cores:.1f} | {warm + people * page:,.0f} MB |")
    return "\n".join(lines) + "\n"


def render_parts(kept: Kept) -> dict[str, str]:
    """Return each generated part of the page by the name in its markers."""
    sections: dict[str, Figures] = kept["figures"]
    sizes = [
        f"**{title}**\n\n{render_section(figures)}"
        for title, figures in sections.items()
        if PIVOTED in title
    ]
    return {
        "sizes": "\n".join(sizes),
        "costs": render_section(sections[COSTS]),
        "rest": render_section(sections[REST]),
        "sizing": render_sizing(kept),
    }


def fill_page(page: str, kept: Kept) -> str:
    """Return the page with new generated parts."""
    for name, text in render_parts(kept).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = page.partition(begin)
        assert found, f"The page has no {begin}"
        page = f"{before}{begin}{text}{end}{rest.partition(end)[2]}"
    return page


# --- charts ------------------------------------------------------------------------------------
WIDTH, LEFT, RIGHT, TOP, ROW = 640, 190, 90, 44, 26
STYLE = (
    "<style>text{font:14px system-ui,sans-serif;fill:#24292f}.t{font-weight:600}"
    ".a{stroke:#8a8f98;fill:none}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>"
)


def draw_bars(title: str, bars: list[tuple[str, float, str]], unit: str) -> str:
    """Return a chart of horizontal bars: what each is, its length and its colour."""
    most = max(value for _, value, _ in bars) or 1.0
    height = TOP + ROW * len(bars) + 10
    parts = [f'<text class="t" x="10" y="24">{title}</text>']
    for number, (name, value, colour) in enumerate(bars):
        y = TOP + ROW * number
        width = (WIDTH - LEFT - RIGHT) * value / most
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>',
            f'<text x="{LEFT + width + 6:.1f}" y="{y + 14}">{format_number(value, unit)}</text>',
        ]
    return wrap(title, height, parts)


def draw_lines(title: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """Return a chart of one line for each server, over the chunks of an answer."""
    right, bottom = WIDTH - 150, 230
    widest = max(x for points in lines.values() for x, _ in points)
    most = max(y for points in lines.values() for _, y in points) or 1.0
    parts = [
        f'<text class="t" x="10" y="24">{title}</text>',
        f'<path class="a" d="M60 {TOP}V{bottom}H{right}"/>',
        f'<text x="52" y="{TOP + 12}" text-anchor="end">{most:,.0f}</text>',
        f'<text x="52" y="{bottom}" text-anchor="end">0</text>',
    ]
    for x in sorted({x for points in lines.values() for x, _ in points}):
        at = 60 + (right - 60) * x / widest
        parts.append(f'<text x="{at:.0f}" y="{bottom + 20}" text-anchor="middle">{x:,.0f}</text>')
    for name, points in lines.items():
        places = [
            (60 + (right - 60) * x / widest, bottom - (bottom - TOP) * y / most) for x, y in points
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = COLOURS[name]
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>',
            f'<text x="{right + 8}" y="{places[-1][1] + 5:.1f}">{NAMES[name]}</text>',
        ]
    return wrap(title, bottom + 34, parts)


def wrap(title: str, height: int, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{title}">'
    )
    return "\n".join([head, STYLE, *parts, "</svg>"]) + "\n"


def draw_all(kept: Kept) -> dict[str, str]:
    """Return each chart by the name of its file."""
    sections: dict[str, Figures] = kept["figures"]
    bars = []
    lines: dict[str, list[tuple[float, float]]] = {}
    for title, figures in sections.items():
        if PIVOTED not in title:
            continue
        answers, chunks = (int(word) for word in title.replace(",", "").split() if word.isdigit())
        for target in list_targets(figures):
            cost = figures[f"{target}: CPU"][0]
            if chunks == CHUNKS and answers > 1:  # a lone answer costs more the idler the machine
                bars.append((f"{NAMES[target]}, {answers} at once", cost, COLOURS[target]))
            if answers == 20:
                lines.setdefault(target, []).append((chunks, cost * chunks / 1_000))
    return {
        "performance-chunks.svg": draw_bars("CPU of 1,000 chunks, answers of 400", bars, "ms"),
        "performance-length.svg": draw_lines(
            "CPU of one answer in ms, by its chunks, 20 at once", lines
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.charts", description=__doc__)
    parser.add_argument("--json", type=Path, default=SOURCE)
    options = read_options(parser)
    kept = read_kept(options.json)
    charts = draw_all(kept)
    page = fill_page(PAGE.read_text(), kept)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if options.smoke else PICTURES
        for name, chart in charts.items():
            (folder / name).write_text(chart)
        if not options.smoke:
            PAGE.write_text(page)
    print_figures("docs/performance.md", [("charts", len(charts), "files")])


if __name__ == "__main__":
    main()
