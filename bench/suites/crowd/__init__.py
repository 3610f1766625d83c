"""Modules of `million.py`, `soak.py` and related suites: a server, many held clients, and the cost of both."""
