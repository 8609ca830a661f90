"""Values that are stored and sent: documents, events, deliveries, dead letters, breakers."""
