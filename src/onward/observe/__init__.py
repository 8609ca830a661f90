"""What others read of a process: Prometheus metrics, health, logs."""
