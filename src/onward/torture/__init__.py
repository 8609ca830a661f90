"""Breaks a fleet on purpose, again and again, and counts what it lost."""
