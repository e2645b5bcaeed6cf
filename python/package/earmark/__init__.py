"""Earmark's simulator: bandwidth reservation along a network path, by RSVP, Boomerang, YESSIR and NSIS.

    >>> import earmark
    >>> outcome = earmark.simulate("scenarios/retry-high.toml", seed=7, retry__threshold=3)
    >>> outcome["watched"][0]["completed_after"]

One scenario and one seed give one outcome, on every machine, byte for byte the one of ``earmark-lab simulate --json``. Other
threads go on while a scenario is played. How scenarios are written, and what an outcome holds, is told in docs/simulator.md.
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
    """Plays a scenario once, and gives what came of it as plain data: dicts, lists, numbers, texts and ``None``.

    ``scenario`` is the path of a file, whose topology lies beside it; or the text of a scenario (a ``str`` with more lines
    than one), whose topology is sought in the working directory.

    Keys of the scenario have other values where ``overrides`` or ``keys`` say so: ``{"retry.threshold": 3}``, or
    ``retry__threshold=3``, where two underscores stand for the dot. Of a list an element is picked by its name or its
    number: ``{"flows.best effort.count": 30}``, ``flows__reserved__count=120``. Values are those of the file: times and rates
    are texts such as ``"30s"`` and ``"100kbit"``.

    Raises ``ScenarioError``, which names file and line, or the key; ``OSError`` where a file cannot be read; ``TypeError``
    where a value is none that a scenario can have; and ``OverflowError`` where the seed is not from 0 to 2**64 - 1.
    """
    return json.loads(simulate_json(scenario, seed, overrides, **keys))


def simulate_json(
    scenario: str | PathLike[str],
    /,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    **keys: Any,
) -> str:
    """What ``simulate`` gives, as JSON: the line that ``earmark-lab simulate --json`` prints, without its end."""
    values = dict(overrides or {})
    values.update((key.replace("__", "."), value) for key, value in keys.items())
    return _earmark.simulate_json(scenario, seed, values)
