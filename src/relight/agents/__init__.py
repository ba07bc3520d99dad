"""Adapters of coding agents, one package each. They implement ports/agent.py and share only `native`."""
