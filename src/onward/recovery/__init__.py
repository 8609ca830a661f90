"""What is retried later, set aside or given up, and how a person puts it back."""
