"""Formats values, next steps, histories and dead letters for the command line and the console."""
