"""One reader a provider format, and the table of them. Those of providers do not know one another; those of agents,
whose lines hold a provider's messages, know that provider's.
"""
