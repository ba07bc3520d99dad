"""How the command line prints: console, tables, plans, steps, errors."""
