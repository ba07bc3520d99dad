"""Bundles: sessions in one file, for another machine. Export, check, import."""
