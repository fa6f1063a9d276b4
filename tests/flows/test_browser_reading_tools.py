"""Tables, charts, code and pictures of answers in a browser: by keyboard, on a phone, without a
script."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FilePayload, FrameLocator, Locator, Page, Route, expect

from tests.peers.reading_room import DOT
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
PHONE = {"width": 390, "height": 844}
PICTURE: FilePayload = {"name": "dot.png", "mimeType": "image/png", "buffer": DOT}
LINES = 60
CODE = "```python\n" + "".join(f"value_{n} = {n}  # as before\n" for n in range(LINES)) + "```\n"
WIDE = "|" + "".join(f" a long name of column {n} |" for n in range(12))
TABLE = (
    "| Time | Errors | Requests |\n|---|--:|--:|\n"
    "| 12:00 | 6 % | 1,200 |\n| 13:00 | 8 % | 900 |\n| 14:00 | 63 % | 4,100 |\n"
)
TEXT = f"{TABLE}\n{WIDE}\n|{'---|' * 12}\n{WIDE}\n\n{CODE}\nThat is all.\n"
SCALE = "(svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
FENCE = "```\n"
# Two frames later, what follows a reply has changed the page.
FRAME = "() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))"
CUT_OFF = """(all) => all.filter((at) => {
    const [own, around] = [at, at.closest("figure")].map((box) => box.getBoundingClientRect());
    return own.left < around.left || own.right > around.right || own.bottom > around.bottom;
}).map((at) => at.textContent)"""
SCROLLS = "(box) => box.scrollWidth > box.clientWidth"


def begin(visit: Visit, question: str, text: str = TEXT, **options: Any) -> Page:
    tab = visit.tab(**options)
    ask_in_new_chat(tab, visit.house.model.answers(question, Answer(text=text, chunk=60)))
    expect_over(tab)
    return tab


def figure(tab: Page, number: int = 0) -> Locator:
    return tab.locator("figure.table").nth(number)


@both_looks
def test_by_keyboard_alone_a_table_becomes_a_chart_and_a_table_again(visit: Visit) -> None:
    tab = begin(visit, "How many errors by keyboard")
    link = figure(tab).get_by_role("link", name="Chart")
    link.focus()
    tab.keyboard.press("Enter")
    shown = figure(tab).get_by_role("img", name="Bar chart of Errors by Time")
    expect(shown).to_be_visible()
    expect(shown).to_have_count(1)  # the narrow one is hidden
    expect(figure(tab).get_by_role("table")).to_be_hidden()
    expect(button(figure(tab), "Table")).to_be_focused()
    lines = figure(tab).get_by_role("radio", name="Lines")
    figure(tab).get_by_role("radio", name="Bars").focus()
    tab.keyboard.press("ArrowRight")
    expect(lines).to_be_checked()
    expect(figure(tab).get_by_role("img", name="Line chart of Errors by Time")).to_be_visible()
    expect(lines).to_be_focused()
    figure(tab).get_by_role("checkbox", name="Errors").uncheck()
    expect(figure(tab).get_by_role("alert")).to_have_text("Choose a column of values.")
    figure(tab).get_by_role("checkbox", name="Requests").check()
    expect(figure(tab).get_by_role("img", name="Line chart of Requests by Time")).to_be_visible()
    button(figure(tab), "Table").focus()
    tab.keyboard.press("Enter")
    expect(figure(tab).get_by_role("table")).to_be_visible()
    expect(link).to_be_focused()
    # What was chosen is still chosen.
    tab.keyboard.press("Enter")
    expect(figure(tab).get_by_role("img", name="Line chart of Requests by Time")).to_be_visible()


def test_files_are_saved(visit: Visit) -> None:
    tab = begin(visit, "How many errors in files")
    code = tab.locator("figure.code")
    places = [
        (figure(tab).get_by_role("link", name="Download CSV"), "table.csv", '"12:00","6 %"'),
        (code.get_by_role("link", name="Download"), "code.py", "value_0 = 0"),
    ]
    for link, name, words in places:
        with tab.expect_download() as saved:
            link.click()
        assert saved.value.suggested_filename == name
        assert words in Path(saved.value.path()).read_text()


@both_looks
def test_a_table_is_copied_as_csv(visit: Visit) -> None:
    tab = begin(visit, "How many errors to copy")
    tab.context.grant_permissions(["clipboard-write"])
    button(figure(tab), "Copy as CSV").click()
    expect(tab.locator("[data-announcements]")).to_have_text("Copied.")
    box(tab).press("Control+V")
    copied = '"Time","Errors","Requests"\n"12:00","6 %","1,200"\n'
    expect(box(tab)).to_have_value(re.compile(f"^{copied}"))


def test_code_is_open_where_it_grew_and_folded_after_a_reload(visit: Visit) -> None:
    tab = visit.tab()
    answer = Answer(text=TEXT, chunk=60, delay_ms=80)
    ask_in_new_chat(tab, visit.house.model.answers("How is it written", answer))
    expect(tab.locator(".tail figure.code")).to_be_visible()
    expect_over(tab)
    code = tab.locator("figure.code")
    unfold = code.get_by_role("checkbox", name=f"Show all {LINES} lines")
    expect(unfold).to_be_checked()
    full = code.evaluate("(box) => box.clientHeight")
    tab.reload()
    expect(unfold).not_to_be_checked()
    assert code.evaluate("(box) => box.clientHeight") < full - 200
    unfold.focus()
    tab.keyboard.press("Space")
    assert code.evaluate("(box) => box.clientHeight") == full


@pytest.mark.parametrize(
    "end",
    [
        "```\n\nOne paragraph.\n\nAnother one.\n\nThe last.\n",
        "```\n\nAll of it.\n\n[it]: https://e.example\n",
    ],
    ids=["blocks", "whole"],
)
def test_code_stays_open_where_other_blocks_end_with_it(visit: Visit, end: str) -> None:
    tab = visit.tab()
    grown = f"Read [it].\n\n{CODE.removesuffix(FENCE)}"
    answer = Answer(text=grown + end, chunk=len(grown), delay_ms=1500)
    ask_in_new_chat(tab, visit.house.model.answers(f"How does it end with {len(end)}", answer))
    expect(tab.locator(".tail figure.code")).to_be_visible()
    expect_over(tab)
    unfold = tab.locator("figure.code").get_by_role("checkbox", name=f"Show all {LINES} lines")
    expect(unfold).to_be_checked()


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_chart_shows_the_latest_choice(visit: Visit, order: list[int]) -> None:
    tab = begin(visit, f"How many errors in the order {order}")
    figure(tab).get_by_role("link", name="Chart").click()
    expect(figure(tab).get_by_role("img")).to_be_visible()
    held: list[Route] = []
    tab.route("**/chart?**", lambda route: held.append(route))
    for kind in ("Lines", "Points"):
        with tab.expect_request("**/chart?**"):
            figure(tab).get_by_role("radio", name=kind).check(force=True)
    for index in order:
        with tab.expect_response("**/chart?**") as answer:
            held[index].continue_()
        answer.value.finished()
    tab.evaluate(FRAME)
    expect(figure(tab).get_by_role("img", name="Points of Errors by Time")).to_be_visible()


def test_two_clicks_open_one_chart(visit: Visit) -> None:
    tab = begin(visit, "How many errors after two clicks")
    held: list[Route] = []
    tab.route("**/chart", lambda route: held.append(route))
    for _ in range(2):
        with tab.expect_request("**/chart"):
            figure(tab).get_by_role("link", name="Chart").click()
    for route in held:
        with tab.expect_response("**/chart") as answer:
            route.continue_()
        answer.value.finished()
    tab.evaluate(FRAME)
    expect(figure(tab).locator(".chart")).to_have_count(1)


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_what_is_no_table_is_not_copied(visit: Visit, is_signed_in: bool) -> None:
    visit.witness.excuse("ERR_FAILED", "Failed to fetch")
    tab = begin(visit, f"How many errors without a copy {is_signed_in}")
    tab.context.grant_permissions(["clipboard-write"])
    if is_signed_in:
        tab.route("**/figures/**", lambda route: route.abort())
    else:
        tab.context.clear_cookies(name="sessionid")
    button(figure(tab), "Copy as CSV").click()
    expect(tab.locator("[data-announcements]")).to_contain_text("The server cannot be reached.")


def test_a_modifier_opens_a_chart_in_a_tab(visit: Visit) -> None:
    tab = begin(visit, "How many errors in a tab")
    with tab.context.expect_page() as opened:
        figure(tab).get_by_role("link", name="Chart").click(modifiers=["ControlOrMeta"])
    expect(opened.value.get_by_role("heading", name="Chart", exact=True)).to_be_visible()
    expect(figure(tab).get_by_role("table")).to_be_visible()


def test_every_control_is_inside_its_figure_on_a_narrow_page(visit: Visit) -> None:
    tab = begin(visit, "How many errors in 320 px", viewport={"width": 320, "height": 640})
    controls = tab.locator(".controls > :is(a, button, label):visible")
    expect(controls).to_have_count(2 * 3 + 4)
    assert controls.evaluate_all(CUT_OFF) == []


def test_forced_colours_show_what_is_chosen(visit: Visit) -> None:
    tab = begin(visit, "How many errors in forced colours", forced_colors="active")
    wrap = tab.locator("figure.code .controls label", has_text="Wrap")
    figure(tab).get_by_role("link", name="Chart").click()
    bars, lines = (tab.locator(".kinds span", has_text=name) for name in ("Bars", "Lines"))
    expect(bars).to_have_css("outline-style", "solid")
    expect(lines).to_have_css("outline-style", "none")
    expect(wrap).to_have_css("outline-style", "none")
    wrap.click()
    expect(wrap).to_have_css("outline-style", "solid")


def test_wide_tables_and_wrapped_code_fit_a_phone(visit: Visit) -> None:
    tab = begin(visit, "How many errors on a phone", viewport=PHONE)
    region = figure(tab, 1).get_by_role("group", name="Table")
    assert region.evaluate(SCROLLS)
    region.focus()
    tab.keyboard.press("End")
    assert not tab.locator("html").evaluate(SCROLLS)
    wrap = tab.locator("figure.code").get_by_role("checkbox", name="Wrap")
    wrap.check()
    assert not tab.locator("figure.code pre").evaluate(SCROLLS)
    figure(tab).get_by_role("link", name="Chart").click()
    chart = figure(tab).get_by_role("img", name=re.compile("Bar chart"))
    expect(chart).to_be_visible()
    # Letters keep their size: the picture for phones is drawn for this width.
    assert chart.evaluate(SCALE) > 0.85


def test_without_javascript_a_chart_is_a_page(visit: Visit) -> None:
    address = begin(visit, "How many errors without a script").url
    tab = visit.tab(java_script_enabled=False)
    tab.goto(address)
    figure(tab).get_by_role("link", name="Chart").click()
    expect(tab.get_by_role("heading", name="Chart", exact=True)).to_be_visible()
    tab.get_by_role("radio", name="Points").check(force=True)
    button(tab, "Draw").click()
    expect(tab.get_by_role("img", name="Points of Errors by Time")).to_be_visible()
    expect(tab.get_by_role("table")).to_be_visible()
    tab.get_by_role("link", name="Back to the chat").click()
    expect(tab.get_by_text("That is all.")).to_be_visible()


@both_looks
def test_a_picture_opens_large_and_the_focus_returns(visit: Visit) -> None:
    tab = visit.tab()
    tab.goto("/")
    box(tab).fill(visit.house.model.answers("What is on it?", Answer(text="A dot.")))
    tab.get_by_label("Add files").set_input_files([PICTURE])
    expect(tab.get_by_role("checkbox", name="dot.png")).to_be_checked()
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect_over(tab)
    link = tab.get_by_role("link", name="dot.png")
    link.focus()
    tab.keyboard.press("Enter")
    opened = tab.get_by_role("dialog", name="Image")
    expect(opened.get_by_role("img", name="dot.png")).to_have_js_property("naturalWidth", 1)
    with tab.expect_download() as saved:
        opened.get_by_role("link", name="Download").click()
    assert saved.value.suggested_filename == "dot.png"
    tab.keyboard.press("Escape")
    expect(opened).to_be_hidden()
    expect(link).to_be_focused()


@both_looks
def test_a_long_message_is_folded(visit: Visit) -> None:
    tab = begin(visit, "\n".join(f"line {n}" for n in range(30)), "Read.")
    bubble = tab.locator(".bubble")
    folded = bubble.evaluate("(box) => box.clientHeight")
    tab.get_by_role("checkbox", name="Show the whole message").check()
    assert bubble.evaluate("(box) => box.clientHeight") > folded + 50


PREVIEWED = (
    "```html\n<h1>A page</h1><p id=out>before</p><script>"
    'const say = (word) => out.textContent += word; out.textContent = origin + " ran";'
    'fetch("/").catch(() => say(", alone"));'
    'try { top.location = "/archived/" } catch { say(", stays") }'
    "</script>\n```\n"
)
LEADING_AWAY = '```html\n<p>Away</p><script>location = "https://example.org/"</script>\n```\n'
DRAWN = '```svg\n<svg viewBox="0 0 9 9"><circle cx="4" cy="4" r="4"/></svg>\n```\n'


def open_preview(tab: Page) -> FrameLocator:
    tab.locator("figure.code").get_by_role("link", name="Preview").click()
    return tab.frame_locator(".preview iframe")


@both_looks
def test_html_of_an_answer_runs_in_a_frame_that_reaches_nothing(visit: Visit) -> None:
    tab = begin(visit, "Make a page for me", PREVIEWED)
    code = tab.locator("figure.code")
    code.get_by_role("link", name="Preview").focus()
    tab.keyboard.press("Enter")
    out = tab.frame_locator(".preview iframe").locator("#out")
    expect(out).to_contain_text("null ran")
    for word in ("alone", "stays"):
        expect(out).to_contain_text(word)
    expect(code.locator("pre")).to_be_hidden()
    expect(button(code, "Code")).to_be_focused()
    tab.keyboard.press("Enter")
    expect(code.locator("pre")).to_be_visible()
    expect(code.get_by_role("link", name="Preview")).to_be_focused()
    assert "/c/" in tab.url
    visit.witness.excuse("navigate the target frame")
    expect_blocked(visit, tab, "connect-src")
    forget_framed(visit)


def test_a_chat_that_is_opened_in_another_page_shows_previews_too(visit: Visit) -> None:
    """The policy of a document stays when the sidebar changes its main part."""
    tab = begin(visit, "Make a page for later", PREVIEWED)
    chat = tab.url.removeprefix(visit.house.server.address)
    tab.goto("/archived/")
    tab.evaluate("() => { window.wasNotLoadedAgain = true; }")
    tab.locator(f"#sidebar-list a[href='{chat}']").click()
    expect(open_preview(tab).locator("#out")).to_contain_text("null ran")
    assert tab.evaluate("() => window.wasNotLoadedAgain")
    expect_blocked(visit, tab, "connect-src")
    visit.witness.excuse("navigate the target frame")
    forget_framed(visit)


def test_html_of_an_answer_cannot_lead_its_frame_to_another_host(visit: Visit) -> None:
    tab = begin(visit, "Lead me away", LEADING_AWAY)
    visit.witness.excuse("frame-src")
    open_preview(tab)
    expect_blocked(visit, tab, "frame-src")
    forget_framed(visit)


def test_without_a_script_a_preview_is_a_page(visit: Visit) -> None:
    tab = visit.tab(java_script_enabled=False)
    question = visit.house.model.answers("A picture?", Answer(text=DRAWN))
    tab.goto("/")
    box(tab).fill(question)
    button(tab, "Send").click()
    link = tab.get_by_role("link", name="Preview")
    expect(link).to_be_visible()
    link.click()
    expect(tab.get_by_role("heading", name="Preview", level=1)).to_be_visible()
    expect(tab.frame_locator("iframe").locator("circle")).to_be_visible()
