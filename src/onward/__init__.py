"""A document pipeline in which every document makes forward progress."""
