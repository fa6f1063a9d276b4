"""Reads from real servers of both eras: resources, templates, prompts, completions."""

from collections.abc import Awaitable, Callable

import pytest

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
from mcpconfig.values.uri_templates import expand
from tests.peers.hostile import Hostile
from tests.peers.library import ELSEWHERE, PICTURE
from tests.peers.serving import Served

MakeService = Callable[..., Awaitable[Service]]

pytestmark = [pytest.mark.gate, pytest.mark.timeout(30)]


@pytest.fixture
async def service(shelves: Served, service_at: MakeService) -> Service:
    return await service_at(shelves.url)


@pytest.fixture
async def modern_service(modern_library: Served, service_at: MakeService) -> Service:
    return await service_at(modern_library.url)


async def test_resources_are_listed(service: Service) -> None:
    resources = {resource.uri: resource for resource in await list_resources(service)}

    assert set(resources) == {"book://moby", "book://cover", ELSEWHERE}
    moby = resources["book://moby"]
    assert (moby.title, moby.description, moby.mime_type) == (
        "Moby-Dick",
        "A whale.",
        "text/plain",
    )


async def test_a_template_makes_a_uri_that_the_service_understands(service: Service) -> None:
    (template,) = await list_resource_templates(service)

    uri = expand(template.uri_template, {"shelf": "low", "name": "Lear"})
    contents = await read_resource(service, uri)

    assert uri == "book://low/Lear"
    assert contents.parts[0].text == "Lear on low"


async def test_a_text_resource_is_read(service: Service) -> None:
    contents = await read_resource(service, "book://moby")

    (part,) = contents.parts
    assert (part.uri, part.mime_type, part.text, part.blob) == (
        "book://moby",
        "text/plain",
        "Call me Ishmael.",
        None,
    )
    assert not contents.was_cut


async def test_a_binary_resource_is_read_as_bytes(service: Service) -> None:
    (part,) = (await read_resource(service, "book://cover")).parts

    assert (part.mime_type, part.blob, part.text) == ("image/png", PICTURE, None)


async def test_a_resource_that_is_not_there_is_a_refusal_and_no_fault_of_the_service(
    service: Service,
) -> None:
    with pytest.raises(OperationError) as caught:
        await read_resource(service, "book:nowhere")

    assert caught.value.kind == "rpc_error"
    assert "book:nowhere" in caught.value.message
    assert (await Service.objects.aget(pk=service.pk)).last_error is None


async def test_prompts_are_listed_with_their_arguments(service: Service) -> None:
    (prompt,) = await list_prompts(service)

    assert (prompt.name, prompt.title, prompt.description) == (
        "review",
        "Review",
        "Write about a book.",
    )
    assert [(argument.name, argument.is_required) for argument in prompt.arguments] == [
        ("book", True),
        ("tone", False),
    ]


async def test_a_prompt_is_filled_in_by_the_service(service: Service) -> None:
    filled = await get_prompt(service, "review", {"book": "Emma", "tone": "dry"})

    assert [(message.role, message.content["text"]) for message in filled.messages] == [
        ("user", "Review Emma."),
        ("assistant", "In a dry tone?"),
    ]


async def test_values_of_a_prompt_are_proposed(service: Service) -> None:
    completion = await complete(service, "review", "tone", "gr")

    assert completion.values == ("green", "grey")
    assert not completion.has_more


async def test_values_of_a_template_are_proposed_knowing_the_others(service: Service) -> None:
    template = "book://{shelf}/{name}"

    completion = await complete(service, template, "name", "b", {"shelf": "low"})

    assert (completion.values, completion.total, completion.has_more) == (("low-b1",), 9, True)


async def read_moby(service: Service) -> object:
    return await read_resource(service, "book://moby")


async def fill_review(service: Service) -> object:
    return await get_prompt(service, "review", {"book": "Emma"})


async def propose_tone(service: Service) -> object:
    return await complete(service, "review", "tone", "g")


@pytest.mark.parametrize(
    ("act", "method"),
    [
        (read_moby, "resources/read"),
        (fill_review, "prompts/get"),
        (propose_tone, "completion/complete"),
        (list_resources, "resources/list"),
        (list_resource_templates, "resources/templates/list"),
        (list_prompts, "prompts/list"),
    ],
)
async def test_a_modern_operation_costs_one_http_request(
    modern_library: Served,
    modern_service: Service,
    act: Callable[[Service], Awaitable[object]],
    method: str,
) -> None:
    await list_prompts(modern_service)
    modern_library.arrivals.clear()

    await act(modern_service)

    assert modern_library.arrivals.methods == [method]


async def test_a_refusal_is_one_request_too_and_changes_nothing_that_is_remembered(
    modern_library: Served, modern_service: Service
) -> None:
    await list_prompts(modern_service)
    modern_library.arrivals.clear()

    with pytest.raises(OperationError):
        await read_resource(modern_service, "book:nowhere")

    assert modern_library.arrivals.methods == ["resources/read"]
    assert (await Service.objects.aget(pk=modern_service.pk)).known_era == "2026-07-28"


async def test_a_uri_goes_to_its_service_and_nowhere_else(
    modern: Served, modern_library: Served, modern_service: Service
) -> None:
    """The library server refuses it; the server at that address receives nothing."""
    with pytest.raises(OperationError):
        await read_resource(modern_service, modern.url)

    assert modern.arrivals.methods == []
    assert "resources/read" in modern_library.arrivals.methods


async def test_a_web_address_is_a_name_like_any_other_to_the_service(
    modern_service: Service,
) -> None:
    contents = await read_resource(modern_service, ELSEWHERE)

    assert contents.parts[0].text == "told by the library"


@pytest.mark.parametrize("uri", ["", "a:b\r\nX: 1", "a: b", "a:\x00", "a:" + "x" * 9_000])
async def test_what_cannot_be_a_uri_is_not_sent(
    modern_library: Served, modern_service: Service, uri: str
) -> None:
    with pytest.raises(OperationError) as caught:
        await read_resource(modern_service, uri)

    assert caught.value.kind == "configuration"
    assert modern_library.arrivals.methods == []


async def test_an_operation_finds_out_anew_when_the_server_has_changed_its_era(
    modern_library: Served, _handshake_library: Served, service_at: MakeService
) -> None:
    service = await service_at(modern_library.url)
    await list_resources(service)
    await Service.objects.filter(pk=service.pk).aupdate(url=_handshake_library.url)
    service = await Service.objects.aget(pk=service.pk)

    contents = await read_resource(service, "book://moby")

    assert contents.parts[0].text == "Call me Ishmael."
    assert service.known_era == "2025-11-25"


async def test_a_service_without_resources_and_prompts_lists_none_and_is_not_asked(
    hostile: Hostile, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("html"))

    assert await list_resources(service) == []
    assert await list_resource_templates(service) == []
    assert await list_prompts(service) == []
    assert set(hostile.requests) == {"server/discover"}


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (read_moby, "The service offers no resources."),
        (fill_review, "The service offers no prompts."),
        (propose_tone, "The service offers no suggestions."),
    ],
)
async def test_what_a_service_does_not_offer_is_refused_in_a_sentence(
    hostile: Hostile,
    service_at: MakeService,
    act: Callable[[Service], Awaitable[object]],
    said: str,
) -> None:
    service = await service_at(hostile.url("html"))

    with pytest.raises(OperationError) as caught:
        await act(service)

    assert caught.value.message == said
    assert (await Service.objects.aget(pk=service.pk)).last_error is None
    assert set(hostile.requests) == {"server/discover"}


async def test_a_service_that_has_learned_to_offer_prompts_is_believed(
    hostile: Hostile, modern_library: Served, service_at: MakeService
) -> None:
    service = await service_at(hostile.url("html"))
    assert await list_prompts(service) == []
    await Service.objects.filter(pk=service.pk).aupdate(url=modern_library.url)
    service = await Service.objects.aget(pk=service.pk)

    assert [prompt.name for prompt in await list_prompts(service)] == ["review"]
