"""What is told of launches: in messages of later faults, and to profilers."""
