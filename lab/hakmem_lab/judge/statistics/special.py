"""Functions of scipy.special, which is loaded at the first call: a command without a verdict does not wait for it."""

from collections.abc import Callable
from typing import Any


def _later(name: str) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*values)

    return call


bdtr = _later("bdtr")
chdtrc = _later("chdtrc")
gammaincinv = _later("gammaincinv")
ndtr = _later("ndtr")
ndtri = _later("ndtri")
stdtrit = _later("stdtrit")
