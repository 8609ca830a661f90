"""Formats values, needs, diagnoses, next steps, histories and dead letters for command line and console."""
