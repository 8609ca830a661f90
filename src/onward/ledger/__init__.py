"""The store's logic in terms of named statements, for every relational database alike.

A backend brings a `Database` (connections, transactions, its dialect's statements); what they mean is
decided here once, so that the guarantees do not depend on the dialect.
"""
