"""How messages say that an array is on another device."""

from __future__ import annotations


def elsewhere(other: str, own: str, what: str) -> str:
    """Behind "is": where an array is that belongs to the device `other`, while `what` is on `own`."""
    if other != own:
        return f"on another device, {other}; {what} is on {own}"
    return (
        f"on another device object of {own} than {what}: open each GPU once in a process and use that Device for "
        "both, or vc.default_device()"
    )
