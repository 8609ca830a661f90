"""Metrics, logs, traces, error reports, health: what is seen from outside."""
