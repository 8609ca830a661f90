"""Typed queries that the command line, the console and the API share."""
