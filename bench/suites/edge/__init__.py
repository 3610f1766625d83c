"""The parts of `edge.py`: the GRIP edge and Pushpin in front of one backend."""
