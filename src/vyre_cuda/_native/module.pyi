from vyre_cuda._native.context import Context

class Module:
    def __init__(self, context: Context, image: bytes) -> None: ...
