"""Sign-in with the password of an LDAP directory, in a browser."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.peers.installing import Unavailable
from tests.peers.ldap_directory import (
    GROUPS,
    PEOPLE,
    READER,
    READER_PASSWORD,
    Directory,
    extra_library,
    running_directory,
)

from .browser import House, Look, both_looks, open_house, openai_alone

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def write_setting(directory: Directory) -> str:
    provider = {
        **{"id": "company", "name": "Example directory", "kind": "ldap"},
        **{"servers": [directory.secure], "ca_file": str(directory.certificate)},
        **{"bind_dn": READER, "bind_password": READER_PASSWORD},
        **{"user_base": PEOPLE, "group_base": GROUPS, "required_groups": ["chat"]},
        "creates_accounts": True,
    }
    return json.dumps([provider])


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A directory with a person in a group, and a server that knows it."""
    slapd, folder = tmp_path_factory.mktemp("slapd"), tmp_path_factory.mktemp("company")
    try:
        with extra_library() as library, running_directory(slapd) as directory:
            directory.add_person("kim", "kim-password", givenName="Kim", sn="Lee")
            directory.add_group("chat", "kim")
            setting = {"SIGN_IN_PROVIDERS": write_setting(directory), "PYTHONPATH": library}
            with open_house(folder, lambda model: {**openai_alone(model), **setting}) as house:
                yield house
    except Unavailable as reason:
        pytest.skip(str(reason))


@both_looks
def test_a_person_comes_in_and_confirms_by_the_password_of_the_directory(
    chromium: Browser, company: House, look: Look
) -> None:
    tab = chromium.new_context(base_url=company.server.address, **look).new_page()
    tab.goto("/sign-in/?next=/memory/")
    expect(tab.get_by_text("Your username and password of Example directory")).to_be_visible()
    tab.get_by_label("Username").fill("kim")
    tab.get_by_label("Password").fill("wrong-password")
    tab.get_by_role("button", name="Sign in", exact=True).click()
    expect(tab.get_by_role("alert")).to_have_text("The username or password is wrong. Try again.")
    tab.get_by_label("Password").fill("kim-password")
    tab.get_by_role("button", name="Sign in", exact=True).click()
    expect(tab.get_by_role("heading", name="Memory")).to_be_visible()
    tab.goto("/settings/")
    expect(tab.get_by_label("Last name")).to_have_value("Lee")
    expect(tab.get_by_text("Kept in Example directory. Change it there.")).to_be_visible()
    tab.goto("/settings/confirm/?next=/memory/")
    tab.get_by_label("Password").fill("kim-password")
    tab.get_by_role("button", name="Continue").click()
    expect(tab.get_by_role("heading", name="Memory")).to_be_visible()
    tab.context.close()
