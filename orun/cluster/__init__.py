"""Fleets on a Ray cluster: Ray tells runs where agents are, and nothing else.

Processes of their own import it: the lister of a run (`lister.py`) and the member of each agent (`member.py`). Runs
connect to the agents that they are told of as to any other, over TCP and with a token.
"""
