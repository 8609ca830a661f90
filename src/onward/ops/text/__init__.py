"""Turns data into sentences, links and commands that the command line and the console share.

The messages about an action are made with the action (`ops/actions`), errors where they are raised, and text
that only one command or page shows in `cli` or `console`.
"""
