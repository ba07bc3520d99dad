"""Content that lies off the machine: immutable parts of segments in a blob store, and a bounded cache of them here."""
