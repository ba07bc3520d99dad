"""The command line as a program: verb lookup, context, confirmation, completion."""
