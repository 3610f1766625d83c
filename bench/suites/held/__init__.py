"""The suite `held`: held clients, and messages to them."""
