"""What several tests need: a fault proxy, a look at the server, event loops."""
