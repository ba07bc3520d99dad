"""`rl`: the object that users, the command line and the server call."""
