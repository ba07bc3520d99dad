"""The checks of `relight.testing.store_kit`, by part of the port."""
