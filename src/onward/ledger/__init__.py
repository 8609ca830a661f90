"""The store's logic in terms of named statements, the same for every relational database.

A backend brings a `Database` (connections, transactions, its dialect's statements).
"""
