"""What a search covers and how it is found: words of a step, queries, blocks of the index. Pure."""
