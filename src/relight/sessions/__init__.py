"""An open session: who may write to it, and what its program does with it. Written over ports only."""
