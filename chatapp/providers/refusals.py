"""Why a provider refuses a request, and the same request without what it refuses."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

from chatapp.server.runtime import current_runtime

from .account import Account
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
# Sentences of Ollama, OpenRouter, vLLM and llama.cpp, and similar ones of others.
NO_TOOLS = re.compile(
    r"(does not|doesn't) support (tools|tool use|tool calling|function calling)\b"
    r"|endpoints found that support tool use"
    r"|tool choice requires --enable-auto-tool-choice"
    r"|tools param requires --jinja"
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
# What llama.cpp says with status 500 about a request that it refuses.
LLAMA_CPP = re.compile(
    r"param requires --jinja"
    r"|(image|audio|video) input is not supported"
    r"|unsupported content\[\]\.type"
)
# Where the providers' formats hold a conversation, and what marks a picture or document in it.
CONVERSATIONS = ("messages", "input", "contents")
FILE_TYPES = {"input_image", "input_file", "image_url", "file", "image", "document"}
FILE_KEYS = {"inline_data", "image", "document"}


def refuses_pictures(complaint: str) -> bool:
    return _refuses(PICTURES, complaint)


def refuses_documents(complaint: str) -> bool:
    return _refuses(DOCUMENTS, complaint)


def is_llama_cpp_refusal(complaint: str) -> bool:
    """Whether this is a sentence of llama.cpp, which answers 500 where others answer 400."""
    return bool(LLAMA_CPP.search(complaint.lower()))


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


# The options of OpenAI's two APIs that some servers refuse.
REMEMBERED = {
    *("stream_options", "reasoning_effort", "temperature", "prompt_cache_key", "max_tokens"),
    *("include", "reasoning", "max_output_tokens", "parallel_tool_calls"),
}
MOST_REMEMBERED = 20


class RefusedOptions:
    """The options that one model of one account refused, with their values, for an hour.

    They are left out of the next request at once. Tools and files are not remembered: people read a
    notice about them, and an admin may allow them at any time.
    """

    def __init__(self, account: Account, model: str) -> None:
        self._key = (account, model)

    def remove(self, body: Body) -> Body:
        """Return the body without the options that were refused before."""
        for name, value, other in current_runtime().refused_options.get(self._key, _hour()) or ():
            if name in body and json.dumps(body[name]) == value:
                body = _replace_option(body, name, other)
        return body

    def add(self, body: Body, simpler: Body) -> None:
        """Remember which options were left out, or sent by another name."""
        cache = current_runtime().refused_options
        known = tuple(cache.get(self._key, _hour()) or ())
        new = next(iter(simpler.keys() - body.keys()), "")
        gone = [name for name in body.keys() - simpler.keys() if name in REMEMBERED]
        found = tuple((name, json.dumps(body[name]), new) for name in gone)
        if found:
            cache.put(self._key, _hour(), (*known, *found)[-MOST_REMEMBERED:])


def _hour() -> int:
    return int(time.monotonic() // 3_600)


def _replace_option(body: Body, name: str, other: str) -> Body:
    kept = {key: value for key, value in body.items() if key != name}
    return {**kept, other: body[name]} if other else kept


class Fallback:
    """Simplifies a refused request, and records which kinds of content that removed.

    Tools are removed here, everything else by the `simplify` of the provider.
    """

    def __init__(self, simplify: Simplify, refused: RefusedOptions | None = None) -> None:
        self._simplify = simplify
        self._refused = refused
        self._simplified: list[tuple[Body, Body]] = []
        self._removed: tuple[FilesLeftOut | ToolsLeftOut, ...] = ()

    def __call__(self, body: Body, complaint: str) -> Body | None:
        if "tools" in body and refuses_tools(complaint):
            self._removed = (*self._removed, ToolsLeftOut())
            return {key: value for key, value in body.items() if key != "tools"}
        simpler = self._simplify(body, complaint)
        if simpler is not None and count_files(simpler) < count_files(body):
            others = (each for each in self._removed if each != FilesLeftOut())
            self._removed = (*others, FilesLeftOut())
        if simpler is not None:
            self._simplified.append((body, simpler))
        return simpler

    def pop_events(self) -> tuple[FilesLeftOut | ToolsLeftOut, ...]:
        """Return what was removed since the last call. The request was accepted."""
        if self._refused is not None:
            for body, simpler in self._simplified:
                self._refused.add(body, simpler)
        self._simplified.clear()
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
