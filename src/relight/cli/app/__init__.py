"""The command line as a program: finding the verb, its context, confirmation, completion."""
