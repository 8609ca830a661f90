"""The six services, each a handler and what it needs to know."""
