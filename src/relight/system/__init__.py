"""The operating system: clock, randomness, processes, private directories, output redirection."""
