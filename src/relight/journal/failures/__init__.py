"""Why an agent ended, decided from what was observed: `classify.classify(ending) -> Verdict`.

One reader an agent (claude, codex, others) looks at structured fields; texts and reset read sentences where fields
are missing; cures says what to do about each class. Nothing here reads a clock, a file of the agent or the network.
"""
