"""Models: embedders and summarizers, built in or behind HTTP."""
