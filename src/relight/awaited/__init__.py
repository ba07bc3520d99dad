"""The verbs of `relight.library` and of `Session`, awaited: generated, and put together by `relight.aio`."""
