"""Native half of the package ``earmark``."""

from os import PathLike
from typing import Any

__version__: str

class ScenarioError(ValueError):
    """An invalid scenario or topology; the message names the file, and the line or key."""

def simulate_json(scenario: str | PathLike[str], seed: int, overrides: dict[str, Any]) -> str: ...
