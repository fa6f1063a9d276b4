"""axe-core looks at what a member opens all day: menus, forms in place, lists under the message
box, shared and imported chats, and the pages around signing in."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.chatapp.imports.samples import CHATGPT, to_json
from tests.wire.script import Answer, Tool

from .browser import (
    DEMO_MODEL,
    Visit,
    ask_in_new_chat,
    box,
    button,
    card,
    expect_over,
    fill_house,
    sign_in,
)
from .test_browser_axe import SCHEMES, SIZES, axe, expect_blocked_of_axe_alone, objections
from .test_browser_files import NOTES, PICTURE

__all__ = ["axe"]
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
EXPORT: FilePayload = {
    "name": "conversations.json",
    "mimeType": "application/json",
    "buffer": to_json(CHATGPT),
}
CODE = """```html
<p>Ducks</p>
```

```mermaid
graph TD; A-->B
```
"""
# An app, a passkey and recovery codes, stored as if they were set up after the sign-in.
FACTORS = """
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from chatapp.models import Invitation, Member
person = Member.objects.get(username="{name}")
TOTP.activate(person, generate_totp_secret())
RecoveryCodes.activate(person)
data = {{"name": "Key", "credential": {{}}}}
key = Authenticator.objects.create(user=person, type="webauthn", data=data)
invitation = Invitation(email="new@example.com", invited_by=person)
token = invitation.set_token()
invitation.save()
print(key.pk, token)
"""
# The browser could not answer for a passkey that it does not have.
FORGET_PASSKEYS = """
from allauth.mfa.models import Authenticator
Authenticator.objects.filter(type="webauthn").delete()
"""
NAMES = iter(f"axe{number}" for number in range(100))
Look = Callable[[str], None]


def open_chat(visit: Visit, tab: Page, text: str, *answers: Answer) -> None:
    ask_in_new_chat(tab, visit.house.model.answers(text, *(answers or (Answer(text="Noted."),))))
    expect_over(tab)


def walk_menus(visit: Visit, tab: Page, look: Look) -> None:
    open_chat(visit, tab, "Menus of a chat")
    tab.keyboard.press("F2")
    look("title in place")
    tab.keyboard.press("Escape")
    button(tab, "Chat menu").click()
    look("menu of the chat")
    tab.keyboard.press("Escape")
    is_narrow = button(tab, "Open the list of chats").is_visible()
    if is_narrow:
        button(tab, "Open the list of chats").click()
    tab.get_by_role("button", name="Actions for Menus of a chat").first.click()
    expect(tab.locator(".row-menu .rename").first).to_be_visible()
    look("menu of a row")
    tab.keyboard.press("Escape")
    open_chat(visit, tab, "Another chat")
    if is_narrow:
        button(tab, "Open the list of chats").click()
    tab.get_by_role("button", name="Actions for Menus of a chat").first.click()
    button(tab.locator("#sidebar-list"), "Archive").click()
    expect(tab.get_by_role("button", name="Undo")).to_be_visible()
    look("undo in the list")


def walk_box(visit: Visit, tab: Page, look: Look) -> None:
    for typed in ("/", "@"):
        for page in ("new", "open"):
            if page == "new":
                tab.goto("/")
            else:
                open_chat(visit, tab, f"List after {typed}")
            box(tab).press_sequentially(typed)
            expect(tab.locator("#picker [data-typed]").first).to_be_visible()
            look(f"{typed} in a chat: {page}")
            box(tab).fill("")
    tab.goto("/")
    button(tab, "Add to the message").click()
    expect(tab.locator("#picker .picker")).to_be_visible()
    look("files and resources")
    tab.goto("/")
    box(tab).press_sequentially("/model")
    expect(tab.locator("#picker [data-typed]").first).to_be_visible()
    box(tab).press("Enter")
    expect(tab.locator("#picker .picker form").first).to_be_visible()
    look("list of models")


def walk_messages(visit: Visit, tab: Page, look: Look) -> None:
    tab.goto("/")
    tab.get_by_label("Add files").set_input_files([PICTURE, NOTES])
    expect(tab.get_by_role("checkbox", name=str(NOTES["name"]))).to_be_visible()
    look("attachments to send")
    box(tab).fill(visit.house.model.answers("What is in it?", Answer(text=CODE)))
    button(tab, "Send").click()
    tab.wait_for_url("**/c/*/")
    expect_over(tab)
    look("attachments and code")
    chat = tab.url
    tab.locator(".turn .attachments a.picture").first.click()
    expect(tab.locator("#lightbox")).to_be_visible()
    look("a large picture")
    tab.keyboard.press("Escape")
    paths = [
        tab.locator(".turn .attachments a.chip").first.get_attribute("href"),
        tab.get_by_role("link", name="Preview").first.get_attribute("href"),
        tab.get_by_role("link", name="Show diagram").first.get_attribute("href"),
    ]
    tab.get_by_role("link", name="Edit message").click()
    expect(tab.get_by_role("textbox", name="Edit message")).to_be_visible()
    look("a message that is edited")
    tab.get_by_role("textbox", name="Edit message").fill(
        visit.house.model.answers("What is in this?", Answer(text="A dot."))
    )
    tab.locator(".edit-acts").get_by_role("button").last.click()
    expect(tab.get_by_text("A dot.")).to_be_visible()
    expect_over(tab)
    look("a message with versions")
    for path in paths:
        tab.goto(str(path))
        expect(tab.get_by_role("main")).to_be_visible()
        look(str(path).rstrip("/").rpartition("/")[2])
    tab.goto(f"{chat}?before=1")
    look("a part that is not there")


def walk_queue(visit: Visit, tab: Page, look: Look) -> None:
    name = f"queue {tab.viewport_size}"
    call = Tool(name="things_delete_thing", arguments={"name": name}, id="call_axe")
    ask_in_new_chat(tab, visit.house.model.answers(f"Delete {name}", Answer(tools=(call,))))
    expect(card(tab, "delete thing")).to_be_visible()
    box(tab).fill("And then?")
    button(tab, "Queue").click()
    expect(tab.locator("#queue .text")).to_have_text("And then?")
    look("a queue")
    tab.goto("/approvals/")
    look("the inbox")
    ask_in_new_chat(tab, "Add lemons to Groceries", DEMO_MODEL)
    expect(card(tab, "add", "notebook")).to_be_visible()
    tab.goto("/approvals/")
    expect(tab.locator(".row-decision").first).to_be_visible()
    look("a request that is decided in its row")


def walk_sharing(visit: Visit, tab: Page, look: Look) -> None:
    open_chat(visit, tab, "A chat to share")
    tab.goto(f"{tab.url}share")
    look("the form that shares")
    button(tab, "Create link").click()
    expect(tab.get_by_text("The link is ready.")).to_be_visible()
    look("a link that is ready")
    address = tab.locator("figure code").inner_text()
    tab.goto(address[address.index("/shared/") :])
    expect(tab.get_by_role("main")).to_be_visible()
    look("a shared chat")
    tab.goto("/imports/")
    tab.get_by_label("ZIP or JSON file").set_input_files(EXPORT)
    button(tab, "Read file").click()
    expect(tab.get_by_role("heading", name="from ChatGPT")).to_be_visible()
    look("an import")
    # The chat may be here already: other flows share the house.
    tab.get_by_role("checkbox", name="Ponds").check()
    button(tab, "Import selected").click()
    expect(button(tab, "Undo import")).to_be_visible()
    look("an import that is done")
    button(tab, "Undo import").click()
    expect(tab.get_by_role("heading", name="The import was undone")).to_be_visible()
    look("an import that was undone")
    tab.goto("/imports/")
    tab.get_by_label("ZIP or JSON file").set_input_files({**EXPORT, "buffer": b"[{"})
    button(tab, "Read file").click()
    expect(tab.get_by_role("link", name="Choose another file")).to_be_visible()
    look("an import that failed")


def walk_account(visit: Visit, tab: Page, look: Look) -> None:
    for path in ("/language/", "/password/"):
        tab.goto(path)
        look(path)
    for kind in ("assistants", "prompts"):
        tab.goto(f"/{kind}/new/")
        tab.locator("#id_name, #id_title").fill("Gardener")
        tab.locator("#id_instructions, #id_text").fill("Water the beds of {{place}}.")
        tab.locator("main form").get_by_role("button").last.click()
        tab.wait_for_url(f"**/{kind}/**")
        tab.goto(f"/{kind}/")
        edit = tab.get_by_role("link", name="Edit").first
        tab.goto(str(edit.get_attribute("href")))
        look(f"edit one of {kind}")
    answer = tab.goto("/nothing/")
    assert answer is not None and answer.status == 404
    look("404")
    tab.goto("/usage/")
    tab.evaluate("""() => {
      const form = Object.assign(document.createElement("form"), { method: "post" });
      form.action = "/settings/appearance";
      document.body.append(form);
      form.submit();
    }""")
    expect(tab.get_by_role("heading", level=1)).to_contain_text("out of date")
    look("403")


def walk_factors(visit: Visit, tab: Page, look: Look) -> None:
    """As a person of their own, whom a second factor keeps out from now on."""
    name = next(NAMES)
    fill_house(visit.house.installation, ["member", "add", name, "--password-env", "PASSWORD"])
    tab.context.clear_cookies()
    sign_in(tab, name, visit.house.installation.password)
    script = FACTORS.format(name=name)
    made = visit.house.installation.manage("shell", "-v", "0", "-c", script)
    key, token = made.splitlines()[-1].split()
    paths = ("/settings/", "/settings/codes/", "/settings/app/remove/")
    for path in (*paths, f"/settings/passkeys/{key}/name/"):
        answer = tab.goto(path)
        assert answer is not None and answer.ok, path
        look(path.replace(key, "key"))
    tab.context.clear_cookies()
    visit.house.installation.manage("shell", "-v", "0", "-c", FORGET_PASSKEYS)
    tab.goto("/sign-in/")
    tab.get_by_label("Name").fill(name)
    tab.get_by_label("Password").fill(visit.house.installation.password)
    button(tab, "Sign in").click()
    tab.wait_for_url("**/sign-in/code/**")
    look("a second factor")
    tab.context.clear_cookies()
    tab.goto(f"/invitation/{token}/")
    expect(tab.get_by_role("button").first).to_be_visible()
    look("an invitation")


WALKS = {
    "factors": walk_factors,
    "menus": walk_menus,
    "box": walk_box,
    "messages": walk_messages,
    "queue": walk_queue,
    "sharing": walk_sharing,
    "account": walk_account,
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", WALKS)
def test_a_day_is_fit_for_everybody(
    visit: Visit, axe: str, name: str, size: str, scheme: Any
) -> None:
    found: dict[str, list[str]] = {}
    tab = visit.tab(viewport=SIZES[size], color_scheme=scheme)
    visit.witness.excuse("status of 40[34]")

    def look(place: str) -> None:
        found[place] = objections(tab, axe)

    WALKS[name](visit, tab, look)
    expect_blocked_of_axe_alone(visit)
    assert {place: words for place, words in found.items() if words} == {}
