"""OpenAI's Responses API, and Chat Completions for compatible servers."""
