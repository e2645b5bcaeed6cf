"""Runs of a sweep on processes, on Dask, or on another executor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from typing import Any, Literal, NamedTuple, TypeAlias

from . import _earmark
from ._earmark import ScenarioError
from .jobs import Job, shown
from .simulation import Arguments

Place: TypeAlias = Literal["processes"] | Executor | Any
"""Where runs are: "processes", an executor, or a client of Dask, whose types are known only where it is installed."""


Found: TypeAlias = "Generator[tuple[Job, str | Failure], None, None]"


class Failure(NamedTuple):
    """Error of a run itself, which another attempt would repeat."""

    error: Exception


def run(arguments: Arguments, values: dict[str, Any], seed: int) -> str | Failure:
    """Runs one seed on a worker; returns the line of JSON."""
    scenario, files, _, overrides = arguments
    try:
        [line] = _earmark.simulate(scenario, files, seed, {**overrides, **values}).json()
    except (ScenarioError, TypeError, ValueError, OverflowError, OSError) as error:
        return Failure(error)
    return line


def outcomes_of(
    arguments: Arguments, jobs: list[Job], on: Place, workers: int | None, retries: int
) -> Found:
    """Runs jobs; yields each with its line of JSON, in the order of their ends."""
    if workers is not None and (on != "processes" or workers < 1):
        raise ValueError("`workers` is the number of processes of this machine, 1 or more")
    if on == "processes":
        return _on_processes(arguments, jobs, workers, retries)
    if isinstance(on, Executor):
        return _on_executor(on, arguments, jobs, _cancel)
    if hasattr(on, "get_executor"):
        executor: Executor = on.get_executor(retries=retries)
        # Cancels all runs by one message.
        return _on_executor(executor, arguments, jobs, lambda _: executor.shutdown(wait=False))
    raise TypeError(f'`on`: give "processes", a Dask client or an executor, not {on!r}')


def _cancel(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


def _kill(executor: Any, _: Iterable[Future[Any]]) -> None:
    executor.shutdown(kill_workers=True)


def _on_processes(
    arguments: Arguments, jobs: list[Job], workers: int | None, retries: int
) -> Found:
    import loky

    unfinished = dict.fromkeys(jobs)
    failures = 0
    while unfinished:
        count = min(workers or loky.cpu_count(), len(unfinished))
        executor = loky.ProcessPoolExecutor(count)
        try:
            for job, line in _on_executor(
                executor, arguments, [*unfinished], functools.partial(_kill, executor)
            ):
                del unfinished[job]
                failures = 0
                yield job, line
        except BrokenExecutor:
            # A process has died, and the others of the pool with it.
            failures += 1
            if failures > retries:
                raise


def _on_executor(
    executor: Executor,
    arguments: Arguments,
    jobs: list[Job],
    end: Callable[[Iterable[Future[Any]]], None],
) -> Found:
    """Runs jobs on an executor. ``end`` cancels those that have not begun, and tidies up."""
    futures: dict[Future[str | Failure], Job] = {}
    broken: dict[Job, BrokenExecutor] = {}
    try:
        for job in jobs:
            futures[executor.submit(run, arguments, job.values, job.seed)] = job
        for future in as_completed(futures):
            job = futures[future]
            try:
                line = future.result()
            except BrokenExecutor as error:
                broken[job] = error  # Others may have ended before.
                continue
            except Exception as error:
                error.add_note(f"in the run with {shown(job)}")
                raise
            yield job, line
    finally:
        end(futures)
    for job in jobs:
        if job in broken:
            broken[job].add_note(f"the first run without a result is that with {shown(job)}")
            raise broken[job]
