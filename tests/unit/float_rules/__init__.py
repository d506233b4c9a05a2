"""Every rule about floats against exact arithmetic."""
