"""The verbs of a trial without their pages: nothing is sent on a word that was overtaken."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from chatapp.models import Member, Trial
from chatapp.people.refused import Refused
from chatapp.simulation import manual_runs
from chatapp.simulation.manual_runs import Proposal
from mcpconfig.models import Exchange, Service, ToolSetting
from mcpconfig.services import tool_definitions
from tests.peers.bench import Bench

pytestmark = pytest.mark.timeout(30)


def proposed(person: Member, service: Service, tool: str = "get_receipt") -> Proposal:
    tool_definitions.confirm_tools(service.definitions.filter(name="get_receipt"))
    arguments = '{"name": "A-17"}' if tool == "delete_order" else "{}"
    return manual_runs.propose(person, service.definitions.get(name=tool), arguments, uuid.uuid4())


def run(proposal: Proposal, confirmed: str = "") -> list[Trial]:
    noted: list[Trial] = []
    manual_runs.run(proposal, confirmed=confirmed, on_stored=noted.append)
    return noted


def test_a_proposal_runs_once(admin: Member, shop: Service, bench: Bench) -> None:
    proposal = proposed(admin, shop)
    assert [trial.pk for trial in run(proposal)] == [proposal.trial_id]
    assert run(proposal) == []
    assert bench.ran == ["get_receipt"]


def switched_off(service: Service) -> None:
    ToolSetting.objects.update_or_create(
        service=service, name="get_receipt", defaults={"is_enabled": False}
    )


def unconfirmed(service: Service) -> None:
    ToolSetting.objects.filter(service=service).update(confirmed_hash="")


def elsewhere(service: Service) -> None:
    Service.objects.filter(pk=service.pk).update(url=f"{service.url}/")


def changed(service: Service) -> None:
    service.definitions.update(is_current=False)


def not_for_admins(service: Service) -> None:
    Service.objects.filter(pk=service.pk).update(visibility=Service.Visibility.GROUPS)


@pytest.mark.parametrize("change", [switched_off, unconfirmed, elsewhere, changed, not_for_admins])
def test_what_policy_allowed_is_checked_again_as_it_is_sent(
    admin: Member, shop: Service, bench: Bench, change: Callable[[Service], None]
) -> None:
    proposal = proposed(admin, shop)
    change(shop)
    with pytest.raises(Refused):
        run(proposal)
    assert bench.ran == [] and not Trial.objects.exists()
    assert not Exchange.objects.filter(operation="call_tool").exists()


def test_what_asks_does_not_run_without_a_yes_to_it(
    admin: Member, shop: Service, bench: Bench
) -> None:
    proposal = proposed(admin, shop, "delete_order")
    other = proposed(admin, shop, "delete_order")
    for confirmed in ("", "x", other.binding):
        with pytest.raises(Refused):
            run(proposal, confirmed)
    assert bench.ran == []
    assert run(proposal, proposal.binding)[0].was_confirmed


def test_what_is_not_noted_is_not_sent(admin: Member, shop: Service, bench: Bench) -> None:
    def fail(_: Trial) -> None:
        raise OSError("The history cannot be written.")

    with pytest.raises(OSError):
        manual_runs.run(proposed(admin, shop), confirmed="", on_stored=fail)
    assert bench.ran == [] and not Trial.objects.exists()


def test_an_unforeseen_end_is_an_unknown_outcome(
    admin: Member, shop: Service, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """A mistake of ours after the first byte says nothing of what the service did."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mcpconfig.operations.tools._parse_answer", broken)
    run(proposed(admin, shop))
    trial = Trial.objects.get()
    assert trial.state == "unknown" and trial.error is not None
    assert trial.error["kind"] == "internal"
    assert "nobody foresaw" in caplog.text
