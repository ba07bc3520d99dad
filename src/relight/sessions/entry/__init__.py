"""How a program gets hold of a session: opened by name or as a child, with options that are taken or refused."""
