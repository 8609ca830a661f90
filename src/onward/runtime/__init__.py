"""Runs services: hands them documents, commits their works, and judges their failures."""
