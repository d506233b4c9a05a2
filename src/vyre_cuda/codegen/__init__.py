"""Programs to PTX, in pure Python and without a GPU: `lower` for who runs it, `source` for who only reads it."""
