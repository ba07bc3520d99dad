"""What relight tells about a program that asks for it: log records under `relight`, and OpenTelemetry spans."""
