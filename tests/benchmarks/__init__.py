"""The benchmark suite is right about what it says, and guards counts that must not grow."""
