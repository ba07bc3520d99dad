"""`relight demo`: an agent fixes a bug and is killed; every number it prints is counted in that run, outside the agent.

Three processes play: the agent (agent.py), the world it talks to (world.py: the scripted model and the mail server),
and the one who kills and counts (story.py, storm.py). It is a door: it uses what a user can use, and nothing of ours
uses it but the command line.
"""
