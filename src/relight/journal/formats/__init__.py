"""One reader a provider format, and the table of them. Siblings do not know one another."""
