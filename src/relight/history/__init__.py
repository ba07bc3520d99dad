"""What was recorded: loading, listing, following, verifying, forking. Written over ports only."""
