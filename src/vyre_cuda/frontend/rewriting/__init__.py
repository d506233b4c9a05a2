"""Python syntax to Python syntax: statements and operators become calls of `building.activation.Activation`."""
