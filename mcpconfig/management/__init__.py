"""The verbs of the `mcp` command."""
