"""Telemetry, for programs that enable it: log records under `relight`, and OpenTelemetry spans."""
