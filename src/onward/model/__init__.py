"""What is stored and sent: documents, events, deliveries, dead letters, breakers."""
