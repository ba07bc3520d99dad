"""Why an agent ended, decided from what was observed: `classify.classify(ending) -> Verdict`.

An agent brings the reader of its structured fields (extensions.EndReader); sdk_errors reads those of the rest; texts
and reset read messages where fields are missing; cures says what to do about each class. Nothing here reads a clock, a
file or the network.
"""
