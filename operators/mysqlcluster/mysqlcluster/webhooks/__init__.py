"""What the API server asks before it stores an object; importing this package declares it."""
