"""The time axis of a history: coordinates and bars, what they are computed from, and attempts that are folded."""
