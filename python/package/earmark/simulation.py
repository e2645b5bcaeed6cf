"""Runs of scenarios: at once, or step by step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, TypeAlias

from . import _earmark
from ._earmark import AdmissionRequest, Message
from .outcome import RunOutcome
from .topology import from_graph, is_file_form

Scenario: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""A path, the text of a scenario (a ``str`` with a line break), or a dict in the form of a scenario file."""
MessageCallback: TypeAlias = Callable[[Message], bool | bytes | None]
AdmissionCallback: TypeAlias = Callable[[AdmissionRequest], bool | int | None]

Arguments: TypeAlias = tuple[
    str | PathLike[str] | dict[str, Any], dict[str, str | dict[str, Any]], int, dict[str, Any]
]
"""Arguments of a native run: the scenario, contents that replace files by their names, the seed, and overrides."""

_TOPOLOGY = "<topology>"
"""Name of a topology that is given as a value."""


def arguments_of(
    scenario: Scenario,
    topology: Any,
    seed: int,
    overrides: Mapping[str, Any] | None,
    keys: Mapping[str, Any],
) -> Arguments:
    """Returns the arguments of the native run."""
    values = dict(overrides or {})
    values.update((key.replace("__", "."), value) for key, value in keys.items())
    given: str | PathLike[str] | dict[str, Any]
    if isinstance(scenario, Mapping):
        given = dict(scenario)
        if topology is None and not isinstance(given.get("topology"), str):
            topology = given.get("topology")
        given.setdefault("topology", _TOPOLOGY)
        if not isinstance(given["topology"], (str, dict)) or is_file_form(given["topology"]):
            given["topology"] = _TOPOLOGY
    else:
        given = scenario
    if topology is not None and hasattr(topology, "is_directed"):
        topology = from_graph(topology)
    if topology is None:
        return given, {}, seed, values
    if is_file_form(topology):
        return given, {_TOPOLOGY: dict(topology)}, seed, {"topology": _TOPOLOGY, **values}
    return given, {}, seed, {"topology": topology, **values}


def simulate(
    scenario: Scenario,
    /,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    *,
    topology: Any = None,
    **keys: Any,
) -> dict[str, Any]:
    """Runs a scenario once, and returns its outcome as plain data: dicts, lists, numbers, strings and ``None``.

    ``scenario`` is the path of a file, with the path of its topology relative to it; the text of a scenario (a ``str``
    with a line break), or a dict in its form, with the path of its topology relative to the working directory.

    ``topology`` replaces the topology: a path, a dict in the form of a topology file or of the key ``topology``, or a networkx
    graph (``earmark.from_graph``).

    ``overrides`` and ``keys`` set keys of the scenario to other values: ``{"retry.threshold": 3}``, or
    ``retry__threshold=3``, where two underscores stand for the dot. The name or the number of an element selects it in a
    list: ``{"flows.best effort.count": 30}``, ``flows__reserved__count=120``. Values are those of the file: times and rates
    are strings such as ``"30s"`` and ``"100kbit"``.

    Other threads continue during a run. An interrupt ends it within a second.

    Raises ``ScenarioError``, which names file and line, or the key; ``OSError`` if a file cannot be read; ``TypeError``
    if a value has a type that scenarios do not support; and ``OverflowError`` if the seed is not from 0 to 2**64 - 1.
    """
    text = simulate_json(scenario, seed, overrides, topology=topology, **keys)
    data: dict[str, Any] = json.loads(text)
    return data


def simulate_json(
    scenario: Scenario,
    /,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    *,
    topology: Any = None,
    **keys: Any,
) -> str:
    """Runs a scenario like ``simulate``, and returns JSON: the line of ``earmark-lab simulate --json``, without line break."""
    [line] = _earmark.simulate(*arguments_of(scenario, topology, seed, overrides, keys)).json()
    return line


def play(
    scenario: Scenario,
    /,
    seed: int = 1,
    overrides: Mapping[str, Any] | None = None,
    *,
    topology: Any = None,
    **keys: Any,
) -> RunOutcome:
    """Runs a scenario like ``simulate``, and returns its outcome with types and Arrow tables."""
    return RunOutcome(_earmark.simulate(*arguments_of(scenario, topology, seed, overrides, keys)))


class Simulation:
    """A run that is played step by step. The outcome does not depend on the steps.

    An exception of a callback ends the run, and is raised unchanged by the call that played. An interrupt takes effect
    within a second, and the run can go on. A callback cannot call methods of the simulation.
    """

    def __init__(
        self,
        scenario: Scenario,
        /,
        seed: int = 1,
        overrides: Mapping[str, Any] | None = None,
        *,
        topology: Any = None,
        **keys: Any,
    ) -> None:
        arguments = arguments_of(scenario, topology, seed, overrides, keys)
        self._native = _earmark.Simulation(*arguments)

    @property
    def now(self) -> float:
        """Time, seconds."""
        return self._native.clock()[0]

    @property
    def end(self) -> float:
        """Time of the end of the scenario, seconds."""
        return self._native.clock()[1]

    @property
    def events(self) -> int:
        """Number of events so far."""
        return self._native.clock()[2]

    def step(self, until: float) -> None:
        """Plays until a time, seconds, which is included."""
        self._native.play(until)

    def run(self) -> RunOutcome:
        """Plays to the end; returns the outcome. The simulation has ended then."""
        self._native.play(None)
        return self.finish()

    def finish(self) -> RunOutcome:
        """Ends the run where it is; returns the outcome so far."""
        return RunOutcome(self._native.finish())

    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return self._native.nodes()

    def links(self) -> list[dict[str, Any]]:
        """Links, one row for each direction: ``node``, ``peer``, ``interface``, ``reservable_bps``, ``held_bps``, ``claims`` ..."""
        return _rows(self._native.links())

    def sessions(self, node: str | None = None) -> list[dict[str, Any]]:
        """Sessions of a node, or of all, as ``earmark show sessions --json`` lists them."""
        return _rows(self._native.sessions(node))

    def reservations(self, node: str | None = None) -> list[dict[str, Any]]:
        """Reservations of a node, or of all, as ``earmark show reservations --json`` lists them."""
        return _rows(self._native.reservations(node))

    def on_message(self, callback: MessageCallback | None) -> None:
        """Calls a function with each signalling message at each end of each link from now on. It returns ``None`` to pass the
        message, ``False`` to drop it, or octets that replace it behind its IP header."""
        self._native.on_message(callback)

    def on_admission(self, callback: AdmissionCallback | None) -> None:
        """Calls a function for each request for bandwidth that is new or grows. It returns ``True`` to grant it, ``False`` to
        refuse it, the available rate in bit/s, or ``None``: admission by parameters. It may be asked several times, so it should
        only depend on the request. A daemon that a fault restarts has the scenario's own admission control."""
        self._native.on_admission(callback)


def _rows(text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(text)
    return rows
