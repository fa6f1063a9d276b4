import pytest
from tests.chatapp.files.papers import pdf
from .browser import Visit, button, expect
from .test_browser_projects import create_project, NOTES, PAPER

pytestmark = [pytest.mark.gate, pytest.mark.timeout(300)]
CSV = {"name": "prices.csv", "mimeType": "text/csv", "buffer": b"a,b\n" + b"tea,3\n" * 400}
SCAN = {"name": "scan-contract.pdf", "mimeType": "application/pdf", "buffer": pdf("")}


def test_shots(visit: Visit):
    visit.witness.excuse("status of")
    tab = visit.tab(viewport={"width": 1280, "height": 800})
    address = create_project(
        tab,
        "Checkout reliability",
        "Times are UTC. Name the deploy that caused a change. Prefer one-line fixes, and open a pull request instead of pushing to main.",
    )
    tab.get_by_label("Add files").set_input_files([NOTES, PAPER, CSV, SCAN])
    expect(tab.get_by_text("Searchable", exact=True)).to_have_count(3)
    expect(tab.get_by_text("Not searchable")).to_have_count(1)
    tab.get_by_label("Username").fill("stranger")
    button(tab, "Add member").click()
    tab.goto("/?project=" + address.rstrip("/").split("/")[-1])
    href = None
    for scheme in ("light", "dark"):
        for w, h in ((1280, 800), (390, 844)):
            tab.emulate_media(color_scheme=scheme)
            tab.set_viewport_size({"width": w, "height": h})
            for name, url in {
                "project": address,
                "list": "/projects/",
                "new": "/projects/new/",
                "edit": address + "edit/",
                "start": "/?project=" + address.rstrip("/").split("/")[-1],
            }.items():
                tab.goto(url)
                tab.screenshot(
                    path=f"/tmp/h/shots_projects/{name}-{w}-{scheme}.png", full_page=False
                )
            tab.goto(address)
            href = tab.get_by_role("link", name="paper.pdf", exact=True).get_attribute("href")
            tab.goto(href + "#c2")
            tab.screenshot(path=f"/tmp/h/shots_projects/file-{w}-{scheme}.png")
            if w == 390:
                tab.goto(address)
                tab.locator(".scroller").evaluate("e=>e.scrollTo(0,700)")
                tab.screenshot(path=f"/tmp/h/shots_projects/project2-{w}-{scheme}.png")
                tab.locator(".scroller").evaluate("e=>e.scrollTo(0,1500)")
                tab.screenshot(path=f"/tmp/h/shots_projects/project3-{w}-{scheme}.png")
