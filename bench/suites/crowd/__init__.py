"""What `million.py` and `soak.py` are made of: one server, a crowd of held clients, and what both cost."""
