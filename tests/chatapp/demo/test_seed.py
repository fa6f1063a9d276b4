"""The demo service among the services: there from the first start, and never against an admin."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from pytest_django import Settings

from chatapp.demo.notebook import TOOLS
from chatapp.demo.seed import NAME, NOTES, URL, list_own_tools, seed
from chatapp.models import Note
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.operations import tools

pytestmark = pytest.mark.django_db

EVERY_TOOL = {tool.__name__ for tool, _, _ in TOOLS}


def demo_service() -> Service:
    return Service.objects.get(name=NAME)


def current_hashes() -> dict[str, str]:
    current = ToolDefinition.objects.filter(service__name=NAME, is_current=True)
    return dict(current.values_list("name", "hash"))


def confirmed_hashes() -> dict[str, str]:
    return dict(ToolSetting.objects.values_list("name", "confirmed_hash"))


def test_the_first_start_offers_the_service_with_confirmed_tools_and_notes() -> None:
    seed()
    service = demo_service()
    assert service.is_enabled
    assert service.visibility == Service.Visibility.EVERYONE
    assert service.url == URL
    assert "demo" in service.title.lower() and "demo" in service.description.lower()
    assert set(current_hashes()) == EVERY_TOOL
    assert confirmed_hashes() == current_hashes()
    assert set(Note.objects.values_list("title", flat=True)) == set(NOTES)


def test_only_a_new_installation_gets_the_risks_of_the_demo() -> None:
    """So that a member sees a write that runs without asking."""
    seed()
    settings = ToolSetting.objects.all()
    assert dict(settings.exclude(level="").values_list("name", "level")) == {"create_note": "low"}
    settings.update(level="high")
    seed()
    assert set(settings.values_list("level", flat=True)) == {"high"}


def test_seeding_again_changes_nothing() -> None:
    seed()
    before = (current_hashes(), confirmed_hashes(), demo_service().pk)
    Note.objects.filter(title="Groceries").delete()
    seed()
    assert (current_hashes(), confirmed_hashes(), demo_service().pk) == before
    assert not Note.objects.filter(title="Groceries").exists()


def test_notes_that_people_wrote_are_not_mixed_with_samples() -> None:
    Note.objects.create(title="Ours")
    seed()
    assert [note.title for note in Note.objects.all()] == ["Ours"]


def test_the_demo_can_be_switched_off_and_on_again(settings: Settings) -> None:
    seed()
    settings.DEMO = False
    seed()
    assert not demo_service().is_enabled
    settings.DEMO = True
    seed()
    assert demo_service().is_enabled
    assert "An admin can switch it off" in demo_service().description


def test_without_the_demo_nothing_is_made(settings: Settings) -> None:
    settings.DEMO = False
    seed()
    assert not Service.objects.exists()
    assert not Note.objects.exists()


@pytest.mark.parametrize("is_off_between", [False, True])
def test_a_service_that_an_admin_switched_off_stays_off(
    settings: Settings, is_off_between: bool
) -> None:
    seed()
    Service.objects.filter(name=NAME).update(is_enabled=False)
    if is_off_between:
        settings.DEMO = False
        seed()
        settings.DEMO = True
    seed()
    assert not demo_service().is_enabled


def test_a_tool_that_an_admin_took_back_stays_unconfirmed() -> None:
    seed()
    ToolSetting.objects.filter(name="delete_note").update(confirmed_hash="", level="high")
    seed()
    setting = ToolSetting.objects.get(name="delete_note")
    assert (setting.confirmed_hash, setting.level) == ("", "high")


def test_a_tool_that_a_new_release_changed_is_confirmed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seed()
    before = current_hashes()
    changed = [asdict(tool) | {"title": f"{tool.title}, new"} for tool in list_own_tools()]
    (tmp_path / "tools.json").write_text(json.dumps(changed))
    monkeypatch.setattr("chatapp.demo.seed.TOOLS", tmp_path / "tools.json")
    seed()
    after = current_hashes()
    assert all(after[name] != before[name] for name in EVERY_TOOL)
    assert confirmed_hashes() == after


def test_another_service_of_that_name_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    Service.objects.create(
        name=NAME, url="https://notes.example/mcp", title="Ours", visibility="everyone"
    )
    seed()
    assert demo_service().url == "https://notes.example/mcp"
    assert not ToolSetting.objects.exists()
    assert "another service is called" in caplog.text


@pytest.mark.django_db(transaction=True)
async def test_what_is_confirmed_is_exactly_what_the_service_says_over_http(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COUNTERSIGN_PORT", raising=False)
    service = await Service.objects.acreate(name=NAME, url=URL, visibility="everyone")
    listed = await tools.list_tools(service)
    written = json.dumps([asdict(tool) for tool in listed], indent=2, ensure_ascii=False)
    assert listed == list_own_tools(), f"chatapp/demo/tools.json should be:\n{written}"
