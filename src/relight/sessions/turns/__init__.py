"""The turns of user and model: prompts, and the loop of model and tools, ready made or by hand."""
