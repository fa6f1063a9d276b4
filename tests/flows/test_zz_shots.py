import pytest
from playwright.sync_api import expect
from tests.wire.script import Answer, Tool
from .browser import *
pytestmark = pytest.mark.gate
SIZES={"1280":{"width":1280,"height":800},"390":{"width":390,"height":844}}
@pytest.mark.parametrize("size",["1280","390"])
@pytest.mark.parametrize("scheme",["light","dark"])
def test_shots(visit: Visit, size, scheme):
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    ask_in_new_chat(tab, visit.house.model.answers("Plan it", Answer(text="Let me think about this.", cut="hang", cut_after=6)))
    expect(tab.get_by_text("Let me think")).to_be_visible()
    write(tab, "Then tell #shop-eng what happened and when it will be fixed, and who is on call this week")
    expect(box(tab)).to_have_value("")
    write(tab, "Order the cake")
    expect(tab.locator("#queue li")).to_have_count(2)
    box(tab).fill("Half a message")
    tab.wait_for_timeout(400)
    tab.screenshot(path=f"/tmp/h/queue-{size}-{scheme}.png")
    button(tab,"Stop").click()
    expect(tab.get_by_role("alert").filter(has_text="did not finish")).to_be_visible()
    tab.wait_for_timeout(400)
    tab.screenshot(path=f"/tmp/h/held-{size}-{scheme}.png")
    call = Tool(name="things_delete_thing", arguments={"name": "old"}, id="call_old")
    ask_in_new_chat(tab, visit.house.model.answers("Delete the old thing", Answer(tools=(call,)), Answer(text="x")))
    expect(card(tab,"delete thing")).to_be_visible()
    box(tab).fill("Then count them"); button(tab,"Queue").click()
    expect(tab.locator("#queue li")).to_have_count(1)
    tab.wait_for_timeout(400)
    tab.screenshot(path=f"/tmp/h/waiting-{size}-{scheme}.png")
