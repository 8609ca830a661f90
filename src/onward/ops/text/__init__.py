"""Turns data into sentences, links and commands that the command line and the console share."""
