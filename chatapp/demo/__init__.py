"""The demo service, an MCP server over a notebook, and the demo assistant."""
