"""`relight demo`: an agent fixes a bug and is killed; every number it prints is counted in that run, outside the agent.

Three processes: the agent (agent.py), the world it talks to (world.py: the scripted model and the mail server), and the
demo itself, which kills and counts (story.py, storm.py). Only the command line imports this package.
"""
