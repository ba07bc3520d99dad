"""`relight demo`: an agent fixes a bug and is killed; every number it prints is counted in that run, outside the agent.

Two processes: the agent (agent.py), and the demo, which is the agent's model and mail server, kills it and counts
(stage.py). shop.py is the task and the script of the model; story.py and storm.py are what is played.
"""
