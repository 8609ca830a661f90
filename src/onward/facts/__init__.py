"""What the command line and the console both tell."""
