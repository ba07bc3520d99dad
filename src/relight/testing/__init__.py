"""Public test kit: conformance suites for every port, a manual clock, seeded ids, a runtime that runs nothing."""
