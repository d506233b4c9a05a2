"""What a device counts."""
