"""Programs without Onward that exchange events with it over RabbitMQ."""
