"""Native half of the package ``earmark``."""

from os import PathLike
from typing import Any

__version__: str

class ScenarioError(ValueError):
    """A scenario or topology that makes no sense; says in which file, and at which line or key."""

def simulate_json(scenario: str | PathLike[str], seed: int, overrides: dict[str, Any]) -> str: ...
