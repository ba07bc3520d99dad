"""What adapters share: files of JSON lines, command lines, ids and times. Nothing here knows an agent."""
