"""Readers: from bytes to text, whatever they hold."""
