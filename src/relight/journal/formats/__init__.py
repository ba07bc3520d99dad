"""One module per provider format, and the table of them. Provider formats do not know one another; formats of agent
transcripts, whose lines contain a provider's messages, know that provider's."""
