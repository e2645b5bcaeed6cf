"""Earmark's simulator: bandwidth reservation along a network path, by RSVP, Boomerang, YESSIR and NSIS.

    >>> import earmark
    >>> outcome = earmark.simulate("scenarios/retry-high.toml", seed=7, retry__threshold=3)
    >>> outcome["watched"][0]["completed_after"]

One scenario and one seed give one outcome on every machine, byte for byte the one of ``earmark-lab simulate --json``. Other
threads continue during a run. docs/python.md describes the package, docs/simulator.md scenarios and outcomes.
"""

from __future__ import annotations

from ._earmark import AdmissionRequest, Message, ScenarioError, Table, __version__
from .outcome import (
    Attempt,
    Delay,
    Established,
    FlowOutcome,
    Offered,
    Outcome,
    Paths,
    Pending,
    Refused,
    Released,
    Report,
    RunOutcome,
    TimedOut,
    frames,
    outcome_of,
    units,
)
from .simulation import Simulation, play, simulate, simulate_json
from .sweeps import SweepOutcome, sweep
from .topology import from_graph

__all__ = [
    "AdmissionRequest",
    "Attempt",
    "Delay",
    "Established",
    "FlowOutcome",
    "Message",
    "Offered",
    "Outcome",
    "Paths",
    "Pending",
    "Refused",
    "Released",
    "Report",
    "RunOutcome",
    "ScenarioError",
    "Simulation",
    "SweepOutcome",
    "Table",
    "TimedOut",
    "__version__",
    "frames",
    "from_graph",
    "outcome_of",
    "play",
    "simulate",
    "simulate_json",
    "sweep",
    "units",
]
