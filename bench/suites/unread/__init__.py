"""The suite `unread`: clients that do not read the responses to their requests."""
