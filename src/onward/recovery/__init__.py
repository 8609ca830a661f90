"""Retry job, failed batches, dead letters and failure groups, and how a person requeues them."""
