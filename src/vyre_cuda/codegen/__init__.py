"""Programs to PTX, in pure Python and without a GPU: `lower` for running it, `source` for only reading it."""
