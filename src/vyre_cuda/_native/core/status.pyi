class AssertReport(Exception):
    report: int
    tag: int
    index: int
    def __init__(self, message: str, report: int, tag: int, index: int) -> None: ...
