"""Servers that lie about their resources and prompts: each read ends with a message, in time,
within limits."""

from collections.abc import Awaitable, Callable

import pytest
from django.conf import LazySettings

from mcpconfig.models import Service
from mcpconfig.operations.resources import (
    complete,
    get_prompt,
    list_prompts,
    list_resource_templates,
    list_resources,
    read_resource,
)
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from tests.peers.hostile import Hostile

MakeService = Callable[..., Awaitable[Service]]
Act = Callable[[Service], Awaitable[object]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]


@pytest.fixture(autouse=True)
def _short_waits(settings: LazySettings) -> None:
    settings.MCP_TOTAL_SECONDS = 3
    settings.MCP_IDLE_SECONDS = 0.5


async def read(service: Service) -> object:
    return await read_resource(service, "a:b")


async def fill(service: Service) -> object:
    return await get_prompt(service, "p", {})


async def propose(service: Service) -> object:
    return await complete(service, "p", "a", "")


LISTS: list[Act] = [list_resources, list_resource_templates, list_prompts]
ALL: list[Act] = [*LISTS, read, fill, propose]


async def failure(service: Service, act: Act) -> OperationError:
    with pytest.raises(OperationError) as caught:
        await act(service)
    assert caught.value.message.endswith(".") or caught.value.kind == "rpc_error"
    return caught.value


@pytest.mark.parametrize("act", LISTS)
@pytest.mark.parametrize("misdeed", ["endless", "cycle", "flood"])
async def test_a_list_without_end_is_refused(
    hostile: Hostile, service_at: MakeService, act: Act, misdeed: str
) -> None:
    service = await service_at(hostile.url(f"reading_{misdeed}"))

    assert (await failure(service, act)).kind == "too_large"
    bound = {"endless": LIMITS.pages, "cycle": 2, "flood": 1}
    assert len(hostile.requests) - 1 == bound[misdeed]


@pytest.mark.parametrize("act", ALL)
async def test_wrong_shapes_are_named_as_such(
    hostile: Hostile, service_at: MakeService, act: Act
) -> None:
    service = await service_at(hostile.url("reading_shapes"))

    assert (await failure(service, act)).kind == "protocol"


@pytest.mark.parametrize(
    ("misdeed", "kind"),
    [
        ("html", "not_mcp"),
        ("h500", "server_error"),
        ("hang", "timeout"),
        ("bad_blob", "protocol"),
        ("too_much", "too_large"),
        ("asks", "protocol"),
        ("unknown", "rpc_error"),
    ],
)
async def test_a_read_without_a_proper_answer_is_explained(
    hostile: Hostile, service_at: MakeService, misdeed: str, kind: str
) -> None:
    service = await service_at(hostile.url(f"reading_{misdeed}"))

    error = await failure(service, read)

    assert error.kind == kind
    assert not error.was_sent
    assert hostile.requests == ["server/discover", "resources/read"]


@pytest.mark.parametrize("misdeed", ["asks", "needs_a_person"])
@pytest.mark.parametrize("act", [read, fill])
async def test_a_question_of_the_service_is_named_and_where_it_could_be_answered(
    hostile: Hostile, service_at: MakeService, misdeed: str, act: Act
) -> None:
    service = await service_at(hostile.url(f"reading_{misdeed}"))

    error = await failure(service, act)

    assert "needs to ask a question" in error.message
    assert "during tool calls" in error.hint
    assert "Models" not in error.hint


@pytest.mark.parametrize(
    ("misdeed", "hint"),
    [
        ("needs_a_model", "Countersign does not share"),
        ("needs_oddly", "Countersign does not share"),
        ("needs_more", "Ask the service’s operator"),
    ],
)
async def test_what_else_a_service_cannot_do_without_has_a_hint_that_fits(
    hostile: Hostile, service_at: MakeService, misdeed: str, hint: str
) -> None:
    error = await failure(await service_at(hostile.url(f"reading_{misdeed}")), read)

    assert (error.kind, error.code) == ("protocol", -32021)
    assert "that Countersign does not offer" in error.message
    assert error.hint.startswith(hint)


@pytest.mark.parametrize("act", LISTS)
async def test_a_declared_list_that_the_service_does_not_know_is_empty(
    hostile: Hostile, service_at: MakeService, act: Act
) -> None:
    service = await service_at(hostile.url("reading_unknown"))

    assert await act(service) == []
    assert len(hostile.requests) == 2


async def test_what_cannot_be_sent_back_is_not_listed_and_a_uri_is_listed_once(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("reading_odd"))

    resources = await list_resources(service)
    templates = await list_resource_templates(service)

    assert [resource.uri for resource in resources] == ["a:twice"]
    assert [template.uri_template for template in templates] == ["a:twice"]


async def test_a_prompt_without_a_usable_name_is_not_listed(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("reading_odd"))

    names = [prompt.name for prompt in await list_prompts(service)]

    assert names == ["a:b\r\nX-Evil: 1", "a:twice"]


async def test_a_long_text_is_cut_at_the_limit_and_says_so(
    hostile: Hostile, service_at: MakeService
) -> None:
    contents = await read_resource(await service_at(hostile.url("reading_long")), "a:b")

    text = contents.parts[0].text
    assert contents.was_cut
    assert text is not None
    assert text.endswith("éé")
    # The next character would have been cut in the middle.
    assert len(text.encode()) == LIMITS.resource_bytes - 1


async def test_bytes_that_do_not_fit_are_left_out_whole(
    hostile: Hostile, service_at: MakeService
) -> None:
    contents = await read_resource(await service_at(hostile.url("reading_heavy")), "a:b")

    assert contents.was_cut
    assert [part.text for part in contents.parts] == ["kept"]


async def test_what_a_part_says_for_programs_is_kept_unless_it_is_huge(
    hostile: Hostile, service_at: MakeService
) -> None:
    contents = await read_resource(await service_at(hostile.url("reading_meta")), "a:b")

    assert [part.meta for part in contents.parts] == [{"ui": {"prefersBorder": True}}, None]


async def test_a_prompt_with_very_many_arguments_shows_the_first(
    hostile: Hostile, service_at: MakeService
) -> None:
    (prompt,) = await list_prompts(await service_at(hostile.url("reading_arguments")))

    assert len(prompt.arguments) == LIMITS.prompt_arguments


async def test_a_crowd_of_parts_is_cut(hostile: Hostile, service_at: MakeService) -> None:
    contents = await read_resource(await service_at(hostile.url("reading_crowd")), "a:b")

    assert contents.was_cut
    assert len(contents.parts) == LIMITS.result_blocks


async def test_a_long_prompt_is_cut_and_says_so(hostile: Hostile, service_at: MakeService) -> None:
    filled = await get_prompt(await service_at(hostile.url("reading_long_prompt")), "p", {})

    assert filled.was_cut
    first, second = (len(message.content["text"]) for message in filled.messages)
    assert first == 700_000
    assert 0 < second < 700_000


async def test_more_proposals_than_the_protocol_allows_are_refused(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("reading_many"))

    assert (await failure(service, propose)).kind == "protocol"


async def test_a_proposal_that_is_too_long_is_left_out_and_said_to_be_missing(
    hostile: Hostile, service_at: MakeService
) -> None:
    completion = await complete(await service_at(hostile.url("reading_wordy")), "p", "a", "")

    assert completion.values == ("short",)
    assert completion.has_more
