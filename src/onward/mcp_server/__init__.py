"""A server for the Model Context Protocol: tools with which assistants search and read a store."""
