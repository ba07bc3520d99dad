"""Where an agent's process lives. Siblings: each keeps ports/runtime.py and knows nothing of the others."""
