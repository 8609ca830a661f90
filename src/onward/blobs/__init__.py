"""Blobs: bytes stored under the digest of their content."""
