"""The public kit for those who build on relight: a conformance suite for stores, a clock one can move, seeded ids."""
