"""How an agent's hooks reach its supervisor: a small client that the agent runs, and the socket it talks to."""
