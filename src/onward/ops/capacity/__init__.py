"""What a load needs: workers, calls, a database; and how far a fleet of workers goes."""
