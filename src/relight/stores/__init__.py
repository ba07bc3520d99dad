"""Stores: interchangeable homes of the journal. None imports another."""
