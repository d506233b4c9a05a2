"""Every rewriting rule against the meaning of its ops."""
