"""How many tokens a model reads at once, as its provider says where it finds a request too long."""

import re

NUMBER = r"(\d[\d,]*)"
# In the words of OpenAI and vLLM, Anthropic (twice), Gemini, llama.cpp, LM Studio (twice),
# llama-cpp-python and Mistral.
SENTENCES = tuple(
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


def named_limit(complaint: str) -> int | None:
    """None where no number is named."""
    said = complaint.lower()
    found = next((match for each in SENTENCES if (match := each.search(said))), None)
    return int(found[1].replace(",", "")) or None if found and len(found[1]) < 16 else None
