"""The output of the `mcp` command: JSON for programs and lines of text for people."""
