"""This machine: clock, randomness, processes, private directories. The only package that asks the operating system."""
