"""Tool calls and `once`: tools, their effects, effects that run or are in doubt, questions to a person."""
