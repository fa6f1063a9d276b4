"""HTTP for programs: REST, the OpenAI-compatible endpoint and the MCP endpoints."""
