"""Values. No I/O, no clock, no decisions."""
