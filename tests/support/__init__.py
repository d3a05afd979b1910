"""What several tests need: a fault proxy, a view of the server, event loops."""
