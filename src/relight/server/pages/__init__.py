"""The pages: view values made from what the engine says, and the templates that show them. Reading writes nothing."""
