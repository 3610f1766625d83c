"""What `attack.py` is made of: hostile clients, the server they are sent to, and what is looked at meanwhile."""
