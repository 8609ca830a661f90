"""Queries, actions and texts for operators, shared by the command line, the console and the API."""
