"""Why a provider refuses a request, and the same request without what it refuses."""

import re
from collections.abc import Callable
from typing import Any

from .events import FilesLeftOut, ToolsLeftOut

Body = dict[str, Any]
# Given a body and the complaint about it, returns a body without the cause, or None.
Simplify = Callable[[Body, str], Body | None]

# The names of tools that handle files occur in complaints about other things, too, and many
# complaints end with a link to documentation.
PICTURES = re.compile(r"(?<![\w-])(images?|image_url|input_image)(?![\w-])")
DOCUMENTS = re.compile(r"(?<![\w-])(pdfs?|files?|documents?|input_file)(?![\w-])")
REFUSES = re.compile(
    r"support|invalid|exceed|too (large|big|long|many)|maximum|cannot|unable|could ?n[o']t"
    r"|(not|n't) (be )?(valid|allowed|permitted|accept|enabled|process)"
    r"|unexpected|unknown|unrecogni[sz]ed"
)
# Sentences of Ollama, OpenRouter and vLLM, and similar ones of others.
NO_TOOLS = re.compile(
    r"(does not|doesn't) support (tools|tool use|tool calling|function calling)\b"
    r"|endpoints found that support tool use"
    r"|tool choice requires --enable-auto-tool-choice"
    r"|\b(tools|tool use|tool calling|function calling) (is|are) not supported"
)
NUMBER = r"(\d[\d,]*)"
# Sentences of OpenAI and vLLM, Anthropic (twice), Gemini, llama.cpp, LM Studio (twice),
# llama-cpp-python and Mistral.
CONTEXT_LIMITS = tuple(
    re.compile(sentence.format(NUMBER))
    for sentence in (
        r"maximum context length (?:is|of) {}",
        r"tokens > {} maximum",
        r"exceed context limit: [\d,+ ]+> {}",
        r"maximum number of tokens allowed \(?{}",
        r"available context size \({}",
        r"context length of (?:only )?{}",
        r"n_ctx\W{{1,4}}{}",
        r"context window of {}",
        r"{} maximum context length",
    )
)
# Where the providers' formats hold a conversation, and what marks a picture or document in it.
CONVERSATIONS = ("messages", "input", "contents")
FILE_TYPES = {"input_image", "input_file", "image_url", "file", "image", "document"}
FILE_KEYS = {"inline_data", "image", "document"}


def refuses_pictures(complaint: str) -> bool:
    return _refuses(PICTURES, complaint)


def refuses_documents(complaint: str) -> bool:
    return _refuses(DOCUMENTS, complaint)


def refuses_tools(complaint: str) -> bool:
    """Whether the model takes no tools at all. A complaint about one tool does not count."""
    return bool(NO_TOOLS.search(complaint.lower()))


def _refuses(files: re.Pattern[str], complaint: str) -> bool:
    text = complaint.lower()
    return bool(files.search(text) and REFUSES.search(text))


def read_context_limit(complaint: str) -> int | None:
    """Return how many tokens the model reads at once, if the complaint has the number."""
    text = complaint.lower()
    found = next((match for each in CONTEXT_LIMITS if (match := each.search(text))), None)
    return int(found[1].replace(",", "")) or None if found and len(found[1]) < 16 else None


class Fallback:
    """Simplifies a refused request, and records which kinds of content that removed.

    Tools are removed here, everything else by the `simplify` of the provider.
    """

    def __init__(self, simplify: Simplify) -> None:
        self._simplify = simplify
        self._removed: tuple[FilesLeftOut | ToolsLeftOut, ...] = ()

    def __call__(self, body: Body, complaint: str) -> Body | None:
        if "tools" in body and refuses_tools(complaint):
            self._removed = (*self._removed, ToolsLeftOut())
            return {key: value for key, value in body.items() if key != "tools"}
        simpler = self._simplify(body, complaint)
        if simpler is not None and count_files(simpler) < count_files(body):
            others = (each for each in self._removed if each != FilesLeftOut())
            self._removed = (*others, FilesLeftOut())
        return simpler

    def pop_events(self) -> tuple[FilesLeftOut | ToolsLeftOut, ...]:
        """Return what was removed since the last call."""
        removed, self._removed = self._removed, ()
        return removed


def count_files(body: Body) -> int:
    """Return the number of pictures and documents in a request of any provider."""
    return sum(_count_files(body[each]) for each in CONVERSATIONS if each in body)


def _count_files(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_count_files, value))
    if not isinstance(value, dict):
        return 0
    if value.get("type") in FILE_TYPES or FILE_KEYS & value.keys():
        return 1
    return sum(map(_count_files, value.values()))
