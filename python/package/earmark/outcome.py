"""Typed outcomes of runs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from . import _earmark
from ._earmark import Table


@dataclass(frozen=True, slots=True)
class Established:
    """A reservation is in place; ``extent`` is "whole", "part", "only_here" or "unverified"; "link" for one link."""

    extent: str


@dataclass(frozen=True, slots=True)
class Offered:
    """Bandwidth is available, and nothing is reserved; ``extent`` as for ``Established``."""

    extent: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The request was refused ``by`` a node, where ``available_bit_s`` was available; ``None`` if unknown."""

    by: str | None
    available_bit_s: int | None


@dataclass(frozen=True, slots=True)
class Released:
    """The reservation has ended."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer has arrived."""


@dataclass(frozen=True, slots=True)
class Pending:
    """The request was sent; no result is known."""


Outcome: TypeAlias = Established | Offered | Refused | Released | TimedOut | Pending


def outcome_of(told: Mapping[str, Any]) -> Outcome:
    """Returns the typed form of an ``outcome`` in the JSON of a run, or of the command ``earmark``."""
    kind: str = told["kind"]
    if kind == "refused":
        by = told["refused_by"] or (told["by"] or {}).get("node")
        return Refused(by, told["available_bps"])
    if kind == "unanswered":
        return TimedOut()
    if kind == "ended":
        return Released()
    if kind == "pending":
        return Pending()
    return Offered(kind) if told["offer"] else Established(kind)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to reserve on a link of a node."""

    at_s: float
    """Time, seconds."""
    node: str
    """Name of the node."""
    outcome: Established | Refused
    """Whether the node granted it."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an application at an end of a flow was told."""

    at_s: float
    """Time, seconds."""
    node: str
    """Name of the node of the application: the source or the destination."""
    outcome: Outcome
    """What the application was told."""


@dataclass(frozen=True, slots=True)
class Delay:
    """One-way delays of the received packets, seconds."""

    mean_s: float
    """Mean."""
    p50_s: float
    """Median (nearest rank)."""
    p99_s: float
    """99th percentile (nearest rank)."""
    max_s: float
    """Maximum."""
    jitter_s: float
    """Interarrival jitter (RFC 3550 section 6.4.1) after the last arrival."""
    ipdv_s: float
    """Mean absolute delay variation (RFC 3393) of packets sent one after the other."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Requests of sources and destinations for paths through firewalls and translators, after the discarded time."""

    asked: int
    """Number of requests."""
    granted: int
    """Number of requests among them that were granted."""
    waits_s: tuple[float, ...] | None
    """Quartiles of the time until the grant, seconds; ``None`` without one."""

    @staticmethod
    def _of(paths: Mapping[str, Any]) -> Paths:
        waits: list[float] | None = paths["waits"]
        return Paths(paths["asked"], paths["granted"], None if waits is None else tuple(waits))


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """Outcome of a watched flow."""

    flows: str
    """Name of its group of flows."""
    source: str
    """Name of the source node."""
    destination: str
    """Name of the destination node."""
    reserves_s: float | None
    """Time of the reservation request, seconds; ``None`` without one."""
    completed_after_s: float | None
    """Time from the request until the reservation was first complete, seconds; ``None`` if it never was."""
    retries: int
    """Number of attempts at nodes of the path after the first there, until the reservation was complete."""
    attempts: tuple[Attempt, ...]
    """All attempts, oldest first."""
    reports: tuple[Report, ...]
    """What the applications at both ends were told, oldest first."""
    sent: int
    """Number of packets sent."""
    arrived: int
    """Number of packets received."""
    lost: int
    """Number of packets dropped. The others that have not arrived were on their way when the flow ended."""
    delay: Delay | None
    """``None`` if nothing has arrived, or data is not simulated packet by packet."""
    rates_bit_s: tuple[int, ...]
    """Received rate in each second of the run, bit/s."""

    @staticmethod
    def _of(flow: Mapping[str, Any]) -> FlowOutcome:
        received = flow["received"]
        delay: Mapping[str, float] | None = received["delay"]
        return FlowOutcome(
            flows=flow["flows"],
            source=flow["from"],
            destination=flow["to"],
            reserves_s=flow["reserves"],
            completed_after_s=flow["completed_after"],
            retries=flow["retries"],
            attempts=tuple(_attempt(attempt) for attempt in flow["attempts"]),
            reports=tuple(
                Report(told["at"], told["node"], outcome_of(told["outcome"]))
                for told in flow["reports"]
            ),
            sent=received["sent"],
            arrived=received["arrived"],
            lost=received["lost"],
            delay=None
            if delay is None
            else Delay(**{f"{name}_s": value for name, value in delay.items()}),
            rates_bit_s=tuple(received["rates"]),
        )


def _attempt(attempt: Mapping[str, Any]) -> Attempt:
    node: str = attempt["node"]
    outcome: Established | Refused = (
        Established("link") if attempt["granted"] else Refused(node, attempt.get("available"))
    )
    return Attempt(attempt["at"], node, outcome)


class RunOutcome:
    """Outcome of one run. ``runs``, ``flows``, ``attempts`` and ``rates`` are Arrow tables with the columns of the CSV files
    of ``earmark-lab simulate``; any library with the Arrow PyCapsule interface reads them without a copy."""

    def __init__(self, native: _earmark.Outcomes) -> None:
        [self._json] = native.json()
        self._native = native
        self._data: dict[str, Any] = json.loads(self._json)
        self.scenario: str = self._data["scenario"]
        """Name of the scenario."""
        self.seed: int = self._data["seed"]
        """Seed of the run."""
        self.events: int = self._data["events"]
        """Number of events of the simulator."""
        self.wanted: int = self._data["wanted"]
        """Number of flows that requested a reservation after the discarded time."""
        self.completed: int = self._data["completed"]
        """Number of flows among them whose reservation was completed."""
        self.served: float = self._data["served"]
        """Share of the time with a requested reservation in which it was complete."""
        self.fragmented: float = self._data["fragmented"]
        """Share of the reserved bandwidth that was reserved in vain."""
        self.interruptions: int = self._data["interruptions"]
        """How often a complete reservation ceased to be complete while its flow wanted it."""
        self.recoveries: int = self._data["recoveries"]
        """How many of them were complete again."""
        times: list[float] | None = self._data["recovery_times"]
        self.recovery_times: tuple[float, ...] | None = None if times is None else tuple(times)
        """Quartiles of the times until then, seconds; None without a recovery."""
        paths: dict[str, Any] | None = self._data.get("paths")
        self.paths: Paths | None = None if paths is None else Paths._of(paths)
        """Requests for paths through firewalls; ``None`` if nobody asks."""
        self.watched: tuple[FlowOutcome, ...] = tuple(map(FlowOutcome._of, self._data["watched"]))
        """Outcomes of the watched flows."""

    @classmethod
    def from_json(cls, text: str) -> RunOutcome:
        """Reads a line of ``earmark-lab simulate --json``, or what ``to_json`` has returned. Raises ``ValueError`` for other texts."""
        return cls(_earmark.Outcomes.from_json(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return RunOutcome.from_json, (self._json,)

    def to_json(self) -> str:
        """Returns the line of ``earmark-lab simulate --json``, without line break."""
        return self._json

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, as ``earmark.simulate``."""
        data: dict[str, Any] = json.loads(self._json)
        return data

    @property
    def runs(self) -> Table:
        """One row."""
        return self._native.table("runs")

    @property
    def flows(self) -> Table:
        """A row for each watched flow."""
        return self._native.table("flows")

    @property
    def attempts(self) -> Table:
        """A row for each attempt of the watched flows."""
        return self._native.table("attempts")

    @property
    def rates(self) -> Table:
        """A row for each watched flow and second."""
        return self._native.table("rates")

    def frames(self, library: Library = "pandas") -> dict[str, Any]:
        """Returns all tables as data frames of a library, by name."""
        return frames([self], library)

    def __repr__(self) -> str:
        counts = f"{self.completed} of {self.wanted} reservations completed"
        return f"<RunOutcome {self.scenario!r}, seed {self.seed}: {counts}>"


Library: TypeAlias = Literal["pandas", "polars", "pyarrow"]
TABLES = ("runs", "flows", "attempts", "rates")


def frames(outcomes: Iterable[RunOutcome], library: Library = "pandas") -> dict[str, Any]:
    """Returns the tables of several runs as data frames of a library, by name. pandas needs pyarrow, too."""
    native = _earmark.Outcomes.concatenate([outcome._native for outcome in outcomes])
    return frames_of({name: native.table(name) for name in TABLES}, library)


def frames_of(tables: Mapping[str, Table], library: Library) -> dict[str, Any]:
    """Returns tables as data frames of a library, by name."""
    if library == "polars":
        polars: Any = importlib.import_module("polars")
        return {name: polars.DataFrame(table) for name, table in tables.items()}
    if library not in ("pandas", "pyarrow"):
        raise ValueError(f"unknown library {library!r}: use 'pandas', 'polars' or 'pyarrow'")
    pyarrow: Any = importlib.import_module("pyarrow")
    read = {name: pyarrow.table(table) for name, table in tables.items()}
    return read if library == "pyarrow" else {name: table.to_pandas() for name, table in read.items()}


def units(table: str) -> dict[str, str | None]:
    """Returns the unit of each column of a table: "s", "bit/s", "packet", or ``None``."""
    return {name: unit for name, unit, _ in _earmark.columns(table)}
