"""The suite `attack`: hostile clients, the attacked server, and the checks of its behaviour."""
