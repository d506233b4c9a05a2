class AssertReport(Exception):
    report: int
    tag: int
    def __init__(self, message: str, report: int, tag: int) -> None: ...
