"""What refusals are about, and that a request without files or tools follows."""

import base64

import pytest

from chatapp.providers.events import FilesLeftOut, ToolsLeftOut
from chatapp.providers.refusals import (
    count_files,
    refuses_documents,
    refuses_pictures,
    refuses_tools,
)
from chatapp.providers.request import Media, ToolOutcome, UserMessage
from tests.wire.script import Answer, Tool
from tests.wire.server import WireServer

from .stories import (
    HELLO,
    OPENAI_FORMS,
    a_request,
    as_history,
    failure_of,
    refusal,
    said_by,
    text_of,
)

COMPLAINTS = {
    "This model does not support image input": (True, False),
    "Invalid content type. image_url is only supported by certain models.": (True, False),
    "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum": (True, False),
    "Could not process image": (True, False),
    "Unsupported MIME type: image/png": (True, False),
    "messages.0.content.1.document: not supported": (False, True),
    "The PDF specified was not valid.": (False, True),
    "Unknown content part type: 'file'": (False, True),
    "Images and documents are not allowed": (True, True),
    "Bad profile. See the documentation or contact support.": (False, False),
    "Invalid schema for function 'file_read': not supported": (False, False),
    "tools.3.image-resize: Extra inputs are not permitted": (False, False),
    "Set the image first": (False, False),
}


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_a_complaint_is_about_files_or_it_is_not(complaint: str) -> None:
    assert (refuses_pictures(complaint), refuses_documents(complaint)) == COMPLAINTS[complaint]


NO_TOOLS = {
    "registry.ollama.ai/library/gemma3:4b does not support tools": True,
    "No endpoints found that support tool use. Try disabling tools.": True,
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set': True,
    "Function calling is not supported by this model": True,
    "Invalid schema for function 'file_read': not supported": False,
    "tools.3.does_not_support_tools: Extra inputs are not permitted": False,
    "tools[0].function.strict is not supported": False,
}


@pytest.mark.parametrize("complaint", NO_TOOLS)
def test_a_model_without_tools_is_told_from_a_tool_that_is_refused(complaint: str) -> None:
    assert refuses_tools(complaint) == NO_TOOLS[complaint]


DOT = Media(media_type="image/png", base64=base64.b64encode(b"\x89PNG").decode(), name="dot.png")
ASKED = UserMessage(text="What is this?", media=(DOT,))
REFUSED = "This model does not support image input: unsupported MIME type or modality."
CALL = Answer(tools=(Tool(name="notes_write"),))


async def test_files_that_are_refused_are_left_out_and_it_is_said_once(
    wire: WireServer, form: str
) -> None:
    wire.play(CALL)
    said = as_history(await said_by(form))
    outcome = ToolOutcome(call_id="call_0", name="notes_write", text="Here", media=(DOT,))
    code = "ValidationException" if form == "bedrock" else ""
    wire.play(refusal(400, code, REFUSED), Answer(text="I cannot see it."))
    events = await said_by(form, a_request((*HELLO, said, outcome, ASKED)))
    assert text_of(events) == "I cannot see it."
    assert [event for event in events if isinstance(event, FilesLeftOut)] == [FilesLeftOut()]
    first, second = (request.body for request in wire.requests[-2:])
    assert "iVBORw" in repr(first) and "iVBORw" not in repr(second)
    assert "What is this?" in repr(second)
    assert count_files(second) == 0


@pytest.mark.parametrize(
    "complaint",
    [
        "tools.0: invalid schema of image_read and file-read, document_list",
        "This profile is not supported. See the documentation.",
    ],
)
async def test_files_stay_where_something_else_was_refused(
    wire: WireServer, form: str, complaint: str
) -> None:
    code = "ValidationException" if form == "bedrock" else ""
    wire.play(*[refusal(400, code, complaint)] * 2)
    assert (await failure_of(form, a_request((ASKED,)))).kind == "bad_request"
    assert len(wire.requests) == 1


async def test_nothing_is_said_where_nothing_was_refused(wire: WireServer, form: str) -> None:
    wire.play(Answer(text="A dot."))
    events = await said_by(form, a_request((ASKED,)))
    assert not [event for event in events if isinstance(event, FilesLeftOut)]


@pytest.mark.parametrize("form", OPENAI_FORMS)
@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (404, "No endpoints found that support tool use."),
    ],
)
async def test_a_model_that_cannot_use_tools_is_asked_without_them_and_it_is_said(
    wire: WireServer, form: str, status: int, complaint: str
) -> None:
    wire.play(refusal(status, "", complaint), Answer(text="I know that by heart."))
    events = await said_by(form)
    assert text_of(events) == "I know that by heart."
    assert events.count(ToolsLeftOut()) == 1
    first, second = (request.body for request in wire.requests)
    assert first.keys() - second.keys() == {"tools"}


@pytest.mark.parametrize("form", OPENAI_FORMS)
async def test_pictures_and_tools_may_both_be_refused(wire: WireServer, form: str) -> None:
    no_tools = refusal(400, "", "This model does not support tools")
    wire.play(refusal(400, "", REFUSED), no_tools, Answer(text="Neither."))
    events = await said_by(form, a_request((ASKED,)))
    told = [event for event in events if isinstance(event, FilesLeftOut | ToolsLeftOut)]
    assert told == [FilesLeftOut(), ToolsLeftOut()]
