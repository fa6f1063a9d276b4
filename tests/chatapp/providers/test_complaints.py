"""Which refusals are about files, and which about tools."""

import pytest

from chatapp.providers.complaints import refuses_documents, refuses_pictures, refuses_tools

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
