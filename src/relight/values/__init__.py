"""Data classes shared by all layers. No I/O, no clock, no decisions."""
