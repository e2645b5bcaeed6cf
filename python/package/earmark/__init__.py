"""Earmark's simulator: bandwidth reservation along a network path, by RSVP, Boomerang, YESSIR and NSIS.

    >>> import earmark
    >>> outcome = earmark.simulate("scenarios/retry-high.toml", seed=7, retry__threshold=3)
    >>> outcome["watched"][0]["completed_after"]

One scenario and one seed give one outcome on every machine, byte for byte the one of ``earmark-lab simulate --json``. Other
threads continue during a run. docs/simulator.md describes scenarios and outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from typing import Any

from . import _earmark
from ._earmark import ScenarioError, __version__

__all__ = ["ScenarioError", "__version__", "simulate", "simulate_json"]


def simulate(
    scenario: str | PathLike[str],
    /,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    **keys: Any,
) -> dict[str, Any]:
    """Runs a scenario once, and returns its outcome as plain data: dicts, lists, numbers, strings and ``None``.

    ``scenario`` is the path of a file, with the path of its topology relative to it; or the text of a scenario (a ``str``
    with a line break), with the path of its topology relative to the working directory.

    ``overrides`` and ``keys`` set keys of the scenario to other values: ``{"retry.threshold": 3}``, or
    ``retry__threshold=3``, where two underscores stand for the dot. The name or the number of an element selects it in a
    list: ``{"flows.best effort.count": 30}``, ``flows__reserved__count=120``. Values are those of the file: times and rates
    are strings such as ``"30s"`` and ``"100kbit"``.

    Raises ``ScenarioError``, which names file and line, or the key; ``OSError`` if a file cannot be read; ``TypeError``
    if a value has a type that scenarios do not support; and ``OverflowError`` if the seed is not from 0 to 2**64 - 1.
    """
    return json.loads(simulate_json(scenario, seed, overrides, **keys))


def simulate_json(
    scenario: str | PathLike[str],
    /,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    **keys: Any,
) -> str:
    """Runs a scenario like ``simulate``, and returns JSON: the line of ``earmark-lab simulate --json``, without line break."""
    values = dict(overrides or {})
    values.update((key.replace("__", "."), value) for key, value in keys.items())
    return _earmark.simulate_json(scenario, seed, values)
