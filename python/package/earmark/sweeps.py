"""Sweeps: all combinations of values of a scenario's keys, each with many seeds."""

from __future__ import annotations

import itertools
import operator
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _earmark
from ._earmark import ScenarioError, Table
from .outcome import TABLES, Library, RunOutcome, frames_of
from .jobs import Job, ResumeFile, identity_of, shown, text_of
from .simulation import Arguments, Scenario, arguments_of
from .workers import Failure, Place, outcomes_of


def sweep(
    scenario: Scenario,
    values: Mapping[str, Iterable[Any]],
    seeds: Iterable[int],
    *,
    topology: Any = None,
    on: Place = "processes",
    workers: int | None = None,
    retries: int = 2,
    progress: bool = True,
    resume: str | Path | None = None,
) -> SweepOutcome:
    """Runs a scenario with all combinations of ``values``, each with all ``seeds``, in parallel.

    ``scenario`` and ``topology`` are those of ``simulate``. ``values`` has a list of values for each key that is swept:
    ``{"retry.threshold": [0, 1, 3, "infinite"]}``; without any, only seeds differ.

    ``on`` says where: ``"processes"`` of this machine, as many as there are processors or ``workers``; a
    ``distributed.Client`` of Dask; or any ``concurrent.futures.Executor``. Workers need only the package: scenario, topology
    and cost profile are sent to them. A run whose worker fails is repeated by another one, up to ``retries`` times, except on an
    executor of your own.

    The outcome does not depend on where the runs were, or on their order: its rows are in the order of ``values``, the last key
    changing first, and of ``seeds``.

    ``progress`` shows the number of finished runs on stderr, if that is a terminal.

    ``resume`` names a file of JSON lines to which each finished run is added. Runs that it has already are not repeated, so that an
    interrupted sweep goes on where it was, and more values or seeds can be added later.

    An interrupt (Ctrl-C) ends the sweep within a second.

    Raises ``ScenarioError`` and what else ``simulate`` raises, with the values and the seed of the run; ``ValueError`` if the file
    ``resume`` is not of this sweep, or an argument is invalid; and ``concurrent.futures.BrokenExecutor``, or
    ``distributed.KilledWorker``, if a run has failed too often with its worker.
    """
    from tqdm import tqdm

    lists = {key: _listed(key, choices) for key, choices in values.items()}
    numbers = [operator.index(seed) for seed in _listed("seeds", seeds)]
    arguments = _portable(*arguments_of(scenario, topology, 1, None, {}), lists)
    jobs = [
        Job(dict(zip(lists, chosen)), seed)
        for chosen in itertools.product(*lists.values())
        for seed in numbers
    ]
    with ResumeFile(resume, identity_of(arguments, lists)) as file:
        finished = {job: file.found[job] for job in jobs if job in file.found}
        missing = [job for job in jobs if job not in finished]
        with (
            closing(outcomes_of(arguments, missing, on, workers, retries)) as found,
            # `None` shows the line on a terminal only.
            tqdm(
                total=len(jobs),
                initial=len(finished),
                unit="run",
                disable=None if progress else True,
            ) as line,
        ):
            for job, outcome in found:
                if isinstance(outcome, Failure):
                    raise _named(outcome.error, job)
                file.add(job, outcome)
                finished[job] = outcome
                line.update()
    return SweepOutcome(tuple(lists), jobs, [finished[job] for job in jobs])


class SweepOutcome:
    """Outcome of a sweep. Its tables are those of ``RunOutcome`` for all runs, with the swept keys as first columns. Iteration yields
    the swept values and the ``RunOutcome`` of each run."""

    def __init__(self, keys: tuple[str, ...], jobs: list[Job], lines: list[str]) -> None:
        self.keys = keys
        """Swept keys."""
        self._jobs = jobs
        self._parts = [_earmark.Outcomes.from_json(line) for line in lines]

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], RunOutcome]]:
        for job, part in zip(self._jobs, self._parts):
            yield dict(job.values), RunOutcome(part)

    def __reduce__(self) -> tuple[Any, ...]:
        return SweepOutcome, (self.keys, self._jobs, self._native.json())

    @cached_property
    def _native(self) -> _earmark.Outcomes:
        return _earmark.Outcomes.concatenate(self._parts)

    def _table(self, name: str) -> Table:
        columns = [(key, _column([job.values[key] for job in self._jobs])) for key in self.keys]
        return self._native.table(name, columns)

    @property
    def runs(self) -> Table:
        """A row for each run."""
        return self._table("runs")

    @property
    def flows(self) -> Table:
        """A row for each run and watched flow."""
        return self._table("flows")

    @property
    def attempts(self) -> Table:
        """A row for each attempt of the watched flows."""
        return self._table("attempts")

    @property
    def rates(self) -> Table:
        """A row for each run, watched flow and second."""
        return self._table("rates")

    def frames(self, library: Library = "pandas") -> dict[str, Any]:
        """Returns all tables as data frames of a library, by name. pandas needs pyarrow, too."""
        return frames_of({name: self._table(name) for name in TABLES}, library)

    def __repr__(self) -> str:
        return f"<SweepOutcome of {len(self)} runs over {', '.join(self.keys) or 'seeds'}>"


def _listed(key: str, choices: Iterable[Any]) -> list[Any]:
    """Checks the values of a key, or the seeds."""
    if isinstance(choices, (str, bytes, Mapping)) or not isinstance(choices, Iterable):
        raise TypeError(f"`{key}`: give a list of values, not {choices!r}")
    for table in TABLES:
        if key in (column for column, _, _ in _earmark.columns(table)):
            raise ValueError(
                f"`{key}` cannot be swept: the table `{table}` has a column of this name"
            )
    # Numbers of numpy are no numbers of a scenario.
    listed = [value.item() if hasattr(value, "item") else value for value in choices]
    if not listed:
        raise ValueError(f"`{key}`: no values")
    texts = [text_of(value) for value in listed]
    for place, text in enumerate(texts):
        if text in texts[:place]:
            raise ValueError(f"`{key}`: {text} is there twice")
    return listed


def _column(values: list[Any]) -> list[Any]:
    """Returns values of one type, which a column needs: numbers, truth values, or texts."""
    kinds = {type(value) for value in values}
    if kinds in ({bool}, {int}, {float}, {int, float}):
        return values
    return [value if isinstance(value, str) else text_of(value) for value in values]


def _named(error: Exception, job: Job) -> Exception:
    """Returns an error that names its run."""
    if isinstance(error, ScenarioError):
        return ScenarioError(f"{error}; in the run with {shown(job)}")
    error.add_note(f"in the run with {shown(job)}")
    return error


def _portable(
    scenario: str | Any,
    files: dict[str, str | dict[str, Any]],
    seed: int,
    overrides: dict[str, Any],
    lists: Mapping[str, list[Any]],
) -> Arguments:
    """Returns the arguments of a run with the contents of all files that it may read, so that it needs no file."""
    folder, content = Path(), scenario
    if not isinstance(scenario, dict):
        content = str(scenario)
        if "\n" not in content:
            scenario, folder = content, Path(content).parent
            content = Path(content).read_text()
            files[scenario] = content
        with suppress(tomllib.TOMLDecodeError):  # The run says what is wrong.
            content = tomllib.loads(content)
    named = [content] if isinstance(content, dict) else []
    named += [overrides, *({key: value} for key, listed in lists.items() for value in listed)]
    for name in itertools.chain.from_iterable(map(_file_names, named)):
        with suppress(OSError, UnicodeDecodeError):  # Maybe no run reads it.
            files.setdefault(name, (folder / name).read_text())
    return scenario, files, seed, overrides


def _file_names(keys: Mapping[str, Any]) -> Iterator[str]:
    """Names of files among the values of keys."""
    for key, value in keys.items():
        if isinstance(value, Mapping) and key in ("topology", "processing"):
            yield from _file_names({f"{key}.{name}": item for name, item in value.items()})
        elif isinstance(value, str) and key in ("topology", "topology.file", "processing.profile"):
            yield value
