"""Whether a request was refused for its files, or for having tools. Complaints about anything else
name tools that deal with files, and many end with a word on documentation."""

import re

PICTURES = re.compile(r"(?<![\w-])(images?|image_url|input_image)(?![\w-])")
DOCUMENTS = re.compile(r"(?<![\w-])(pdfs?|files?|documents?|input_file)(?![\w-])")
REFUSES = re.compile(
    r"support|invalid|exceed|too (large|big|long|many)|maximum|cannot|unable|could ?n[o']t"
    r"|(not|n't) (be )?(valid|allowed|permitted|accept|enabled|process)"
    r"|unexpected|unknown|unrecogni[sz]ed"
)
# In the words of Ollama, OpenRouter and vLLM, and of others that say it alike.
ANY_TOOLS = re.compile(
    r"(does not|doesn't) support (tools|tool use|tool calling|function calling)\b"
    r"|endpoints found that support tool use"
    r"|tool choice requires --enable-auto-tool-choice"
    r"|\b(tools|tool use|tool calling|function calling) (is|are) not supported"
)


def refuses_pictures(complaint: str) -> bool:
    return _refuses(PICTURES, complaint)


def refuses_documents(complaint: str) -> bool:
    return _refuses(DOCUMENTS, complaint)


def refuses_tools(complaint: str) -> bool:
    """Any at all: not one of them, or its shape."""
    return bool(ANY_TOOLS.search(complaint.lower()))


def _refuses(files: re.Pattern[str], complaint: str) -> bool:
    said = complaint.lower()
    return bool(files.search(said) and REFUSES.search(said))
