"""Fleets on a Ray cluster: byte tunnels from a run to the agents of other machines.

Ray finds the machines and carries bytes, nothing else. Processes of their own import it: the run's relay (`relay.py`)
and the member of each agent (`member.py`). Agents and runs speak through the tunnels as they do through a socket.
"""
