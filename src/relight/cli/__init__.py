"""The command line: one file a verb. It asks the library, and adds words and layout, nothing else."""
