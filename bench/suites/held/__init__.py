"""The parts of `held.py`: clients that are held and messages that reach them."""
