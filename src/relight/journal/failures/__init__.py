"""Why an agent ended, decided from what was observed: `classify.classify(ending) -> Verdict`.

One module per agent (claude, codex, others) reads structured fields; texts and reset read messages where fields are
missing; cures says what to do about each class. Nothing here reads a clock, a file or the network.
"""
