"""Foreign text made readable as HTML: markdown, code, terminal output, differences, tool calls. Pure, and bounded."""
