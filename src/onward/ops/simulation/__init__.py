"""What an outage would do with other settings: the real engine, store and retry job on a simulated clock."""
