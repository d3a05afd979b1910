"""What an owner has of a name, from its grant to its end or its loss."""
