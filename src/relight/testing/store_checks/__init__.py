"""The checks behind `relight.testing.store_kit`, by the part of the port they are about."""
