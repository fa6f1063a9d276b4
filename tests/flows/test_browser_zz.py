import pytest
from .browser import Visit, sign_in
from .test_browser_accounts import add_member
pytestmark = pytest.mark.gate
def test_shots(visit: Visit) -> None:
    add_member(visit, "mara")
    for scheme in ("light","dark"):
        for w,h in ((1280,800),(390,844)):
            tab = visit.tab("", color_scheme=scheme, viewport={"width":w,"height":h})
            tab.goto("/sign-in/"); tab.screenshot(path=f"/tmp/shots/signin-{w}-{scheme}.png")
            sign_in(tab, "mara", visit.house.installation.password)
            for name, path in (("settings","/settings/"),("app","/settings/app/"),("passkey","/settings/passkeys/add/"),("delete","/settings/delete/"),("confirm","/settings/confirm/")):
                tab.goto(path)
                if name=="settings":
                    tab.set_viewport_size({"width":w,"height":2000})
                tab.screenshot(path=f"/tmp/shots/{name}-{w}-{scheme}.png")
                tab.set_viewport_size({"width":w,"height":h})
