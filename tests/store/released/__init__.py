"""Stores as released versions left them, to test upgrades; `python -m tests.store.released VERSION` adds one."""
