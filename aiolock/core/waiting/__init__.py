"""From a task that wants a name to the grant that it gets."""
