import pytest
from tests.chatapp.imports.samples import *
from .browser import Visit, button
from .test_browser_imports import choose, FILE
pytestmark = pytest.mark.gate

def test_shots(visit: Visit) -> None:
    axe = None
    n = 0
    for scheme in ("light", "dark"):
        for name, size in (("w", (1280, 800)), ("n", (390, 844))):
            tab = visit.tab(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
            def shot(what):
                tab.screenshot(path=f"/tmp/h/imp_{what}_{scheme}_{name}.png")
            tab.goto("/imports/"); tab.wait_for_load_state("networkidle"); shot("start")
            many = [CHATGPT, CLAUDE, OPEN_WEBUI, gpt_chat(gpt_node("a", None), id="e", conversation_id="e", title="Empty one")]
            many += [gpt_chat(gpt_node("a", None, "user", "Hi"), gpt_node("b", "a", "assistant", "x"), id=f"x{n}", conversation_id=f"x{n}", title="Planning the garden for the next spring, with very much water and a pond " * 2, update_time=BEGUN + n) for n in range(8)]
            choose(tab, {"name": "chatgpt-export-2026-11-27.zip", "mimeType": "application/zip", "buffer": to_zip({"conversations.json": to_json(*many)})})
            tab.get_by_text("What will not come over").wait_for(timeout=40000)
            shot("preview")
            tab.get_by_text("What will not come over").click()
            tab.locator(".scroller").evaluate("e => e.scrollTo(0, 500)"); tab.wait_for_timeout(300)
            shot("preview2")
            if scheme == "dark":
                button(tab, "Discard file").click(); continue
            button(tab, "Select all new").click()
            button(tab, "Import selected").click()
            tab.locator("[data-state=done]").wait_for(timeout=40000)
            shot("done")
            tab.goto("/imports/"); shot("list")
            tab.goto("/search/"); shot("search")
            tab.get_by_role("main").get_by_role("link", name="Ponds").first.click()
            tab.get_by_text("Imported from").wait_for(); tab.wait_for_timeout(500); shot("chat")
            tab.goto("/imports/"); tab.get_by_role("main").get_by_role("link", name="chatgpt-export").first.click()
            button(tab, "Undo import").click()
