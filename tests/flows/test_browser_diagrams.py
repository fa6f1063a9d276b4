"""Mermaid diagrams of answers in a browser: drawn on a click, in a frame that reaches nothing."""

from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.wire.script import Answer

from .browser import (
    Visit,
    ask_in_new_chat,
    both_looks,
    box,
    button,
    expect_blocked,
    expect_over,
    forget_framed,
)

pytestmark = pytest.mark.long
FLOW = 'flowchart LR\n  A["Ask"] --> B{Risky?}\n  B -- yes --> C[Approve]\n'
KINDS = {
    "flowchart": FLOW,
    "sequence": "sequenceDiagram\n  You->>Service: Delete\n  Service-->>You: Deleted\n",
    "class": "classDiagram\n  class Turn\n  Turn <|-- Step\n",
    "state": "stateDiagram-v2\n  [*] --> queued\n  queued --> [*]\n",
    "gantt": "gantt\n  dateFormat YYYY-MM-DD\n  section A\n  One :a1, 2026-01-01, 30d\n",
    "pie": 'pie title Calls\n  "low" : 60\n  "high" : 10\n',
    "er": "erDiagram\n  CHAT ||--o{ MESSAGE : has\n",
}
# What a diagram could try: scripts in links, labels and settings, and a lower level of security.
HOSTILE = """%%{init: {"securityLevel": "loose", "maxEdges": 9}}%%
flowchart LR
  A["<img src=x onerror='parent.postMessage(1, String.fromCharCode(42))'>Label"] --> B
  B["<script>document.title = 'ran'</script>Other"]
  click A href "javascript:document.title='ran'"
  click B call alert("ran")
"""
MANY_EDGES = "flowchart LR\n" + "".join(f"  N{n} --> N{n + 1}\n" for n in range(400))
LONG = "flowchart LR\n  A[" + "long " * 5_000 + "]\n"
TITLE = "() => document.title"
CANVAS = "(body) => getComputedStyle(body).backgroundColor"


def fence(code: str) -> str:
    return f"```mermaid\n{code}```\n"


def begin(visit: Visit, question: str, *codes: str, **options: Any) -> Page:
    tab = visit.tab(**options)
    text = "\n".join(map(fence, codes))
    ask_in_new_chat(tab, visit.house.model.answers(question, Answer(text=text, chunk=200)))
    expect_over(tab)
    return tab


def show(figure: Locator) -> FrameLocator:
    figure.get_by_role("link", name="Show diagram").click()
    return figure.frame_locator(".preview iframe")


@both_looks
def test_every_common_kind_of_diagram_is_drawn_on_a_click(visit: Visit) -> None:
    tab = begin(visit, "Draw one of each kind", *KINDS.values())
    scripts: list[str] = []
    tab.on("request", lambda each: scripts.append(each.url) if "mermaid" in each.url else None)
    figures = tab.locator("figure.code")
    expect(figures).to_have_count(len(KINDS))
    assert scripts == []
    for number in range(len(KINDS)):
        frame = show(figures.nth(number))
        expect(frame.locator("#drawing svg")).to_be_visible()
        expect(frame.locator("#source")).to_be_hidden()
    assert scripts


@both_looks
def test_by_keyboard_alone_a_diagram_becomes_code_again(visit: Visit) -> None:
    tab = begin(visit, "Draw it by keyboard", FLOW)
    code = tab.locator("figure.code")
    code.get_by_role("link", name="Show diagram").focus()
    tab.keyboard.press("Enter")
    frame = code.frame_locator("iframe[title='Diagram of the code']")
    expect(frame.locator("#drawing").get_by_text("Approve")).to_be_visible()
    expect(code.locator("pre")).to_be_hidden()
    expect(button(code, "Code")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(code.locator("pre")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_diagram_has_the_colours_of_its_page(visit: Visit, scheme: str) -> None:
    tab = begin(visit, f"Draw it in {scheme}", FLOW, color_scheme=scheme)
    frame = show(tab.locator("figure.code"))
    expect(frame.locator("#drawing svg")).to_be_visible()
    colour = frame.locator("body").evaluate(CANVAS)
    assert colour == {"light": "rgb(246, 245, 242)", "dark": "rgb(17, 18, 24)"}[scheme]


def test_code_that_is_no_diagram_says_so_and_stays(visit: Visit) -> None:
    tab = begin(visit, "Draw nothing that is valid", "flowchart LR\n  A --> --> B[\n")
    frame = show(tab.locator("figure.code"))
    expect(frame.get_by_text("This code cannot be drawn as a diagram.")).to_be_visible()
    expect(frame.locator("#fault")).to_contain_text("line 2")
    expect(frame.locator("#source")).to_contain_text("A --> --> B[")
    button(tab.locator("figure.code"), "Code").click()
    expect(tab.locator("figure.code pre").first).to_contain_text("A --> --> B[")


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (MANY_EDGES, "This code cannot be drawn as a diagram."),
        (LONG, "Diagrams with more than 20,000 characters are not drawn."),
    ],
    ids=["edges", "characters"],
)
def test_a_huge_diagram_is_refused(visit: Visit, code: str, refusal: str) -> None:
    tab = begin(visit, f"Draw a huge diagram of {len(code)}", code)
    frame = show(tab.locator("figure.code"))
    expect(frame.get_by_text(refusal)).to_be_visible()
    expect(frame.locator("#source")).to_be_visible()
    expect(frame.locator("#drawing svg")).to_have_count(0)


def test_a_hostile_diagram_runs_nothing_and_leads_nowhere(visit: Visit) -> None:
    tab = begin(visit, "Draw something hostile", HOSTILE)
    tab.evaluate("() => onmessage = () => { document.title = 'told' }")
    frame = show(tab.locator("figure.code"))
    expect(frame.locator("#drawing svg")).to_be_visible()
    body = frame.locator("body")
    assert frame.locator("#drawing :is(script, iframe, [onclick], [onerror])").count() == 0
    links = frame.locator("#drawing a").evaluate_all(
        "(all) => all.map((a) => a.getAttribute('href') || a.getAttribute('xlink:href') || '')"
    )
    assert not [each for each in links if "javascript" in each.lower()]
    for node in frame.locator("#drawing .node").all():
        node.click()
    expect(frame.locator("#drawing svg")).to_be_visible()
    assert body.evaluate(TITLE) == "Diagram"
    assert "told" not in tab.title()
    assert "/c/" in tab.url
    expect_blocked(visit, tab, "page: img-src", already=1)  # the picture of a label, drawn twice
    forget_framed(visit)


def test_the_frame_of_a_diagram_runs_no_other_script(visit: Visit) -> None:
    """Its policy alone, as if Mermaid let a script through."""
    tab = begin(visit, "Draw it with a script", FLOW)
    frame = show(tab.locator("figure.code"))
    expect(frame.locator("#drawing svg")).to_be_visible()
    told = frame.locator("body").evaluate(
        """async (body) => {
            const added = document.createElement("script");
            added.textContent = "document.title = 'ran'";
            const picture = new Image();
            body.append(added, picture);
            picture.src = "/static/img/mark.svg";
            const seen = await fetch("/").then(() => "reached", () => "alone");
            return [document.title, origin, seen, picture.naturalWidth];
        }"""
    )
    assert told == ["Diagram", "null", "alone", 0]
    for rule in ("script-src", "connect-src", "img-src"):
        expect_blocked(visit, tab, f"page: {rule}")
    forget_framed(visit)


def test_nothing_is_drawn_while_the_answer_is_written(visit: Visit) -> None:
    tab = visit.tab()
    text = f"{fence(FLOW)}\nThen more.\n"
    answer = Answer(text=text, chunk=len(text) - 30, delay_ms=1500)
    ask_in_new_chat(tab, visit.house.model.answers("Draw it slowly", answer))
    expect(tab.locator("figure.code")).to_be_visible()
    expect(tab.locator("iframe")).to_have_count(0)
    expect_over(tab)
    expect(tab.get_by_role("link", name="Show diagram")).to_be_visible()
    expect(tab.locator("iframe")).to_have_count(0)


def test_without_a_script_a_diagram_keeps_its_code(visit: Visit) -> None:
    tab = visit.tab(java_script_enabled=False)
    question = visit.house.model.answers("Draw it without a script", Answer(text=fence(FLOW)))
    tab.goto("/")
    box(tab).fill(question)
    button(tab, "Send").click()
    tab.get_by_role("link", name="Show diagram").click()
    expect(tab.get_by_role("heading", name="Diagram", level=1)).to_be_visible()
    frame = tab.frame_locator("iframe")
    expect(frame.get_by_text("Drawing a diagram needs JavaScript.")).to_be_visible()
    expect(frame.locator("#source")).to_contain_text("Approve")
    expect(tab.locator(".preview-code")).to_contain_text("Approve")
