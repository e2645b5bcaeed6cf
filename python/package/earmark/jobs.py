"""Runs of a sweep, and the file that keeps the finished ones."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable
from os import PathLike
from types import TracebackType
from typing import Any, BinaryIO

from ._earmark import __version__
from .simulation import Arguments


class Job:
    """A run of a sweep: the values of the swept keys, and the seed."""

    def __init__(self, values: dict[str, Any], seed: int) -> None:
        self.values = values
        self.seed = seed
        self._identity = text_of([values, seed])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


def text_of(value: Any) -> str:
    """Returns a value as JSON, with sorted keys. A value that no scenario can have has its Python form; the run refuses it."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr)


def shown(job: Job) -> str:
    """Returns the values and the seed of a run, as errors show them."""
    values = [f"{key} = {text_of(value)}" for key, value in job.values.items()]
    return ", ".join([*values, f"seed {job.seed}"])


def identity_of(arguments: Arguments, keys: Iterable[str]) -> dict[str, Any]:
    """Returns what must agree for runs to belong to one sweep. Values and seeds may differ."""
    scenario, files, _, overrides = arguments
    given = scenario if isinstance(scenario, dict) else files.get(str(scenario), scenario)
    # The path of the scenario is left out: the directory may have been moved.
    others = {name: content for name, content in files.items() if name != scenario}
    digest = hashlib.sha256(text_of([given, others, overrides]).encode()).hexdigest()
    return {"earmark": __version__, "keys": list(keys), "scenario_and_files": digest}


def _head(job: Job) -> str:
    """Returns the line of a run up to its outcome."""
    values = json.dumps(job.values, ensure_ascii=False)
    return f'{{"values": {values}, "seed": {job.seed}, "outcome": '


class ResumeFile:
    """A file of JSON lines: the identity of the sweep, then one line for each finished run. Without a path, nothing is kept."""

    def __init__(self, path: str | PathLike[str] | None, identity: dict[str, Any]) -> None:
        self.found: dict[Job, str] = {}
        self._file: BinaryIO | None = None
        if path is None:
            return
        self._name = os.fspath(path)
        self._file = open(path, "a+b")  # noqa: SIM115 - closed by __exit__
        try:
            self._read(self._file, identity)
        except BaseException:
            self._file.close()
            raise

    def _read(self, file: BinaryIO, identity: dict[str, Any]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{self._name}: another sweep is writing to this file") from None
        file.seek(0)
        end = 0
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break  # The sweep was killed while it wrote this line.
            self._take(number, line, identity)
            end += len(line)
        file.truncate(end)
        if end == 0:
            self._append(identity)

    def _take(self, number: int, line: bytes, identity: dict[str, Any]) -> None:
        try:
            row = json.loads(line)
            if number > 1:
                job = Job(row["values"], row["seed"])
                # Numbers are kept as they are written.
                self.found[job] = line.decode().removeprefix(_head(job)).removesuffix("}\n")
                return
            different = [key for key in identity if row[key] != identity[key]]
        except (ValueError, TypeError, KeyError):
            why = "this is no line of a sweep; give the name of a new file"
            raise ValueError(f"{self._name}: line {number}: {why}") from None
        if different:
            what = f"different: {', '.join(different)}"
            raise ValueError(
                f"{self._name}: this file is of another sweep ({what}); give the name of a new file"
            )

    def _append(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            self._file.flush()

    def add(self, job: Job, line: str) -> None:
        """Appends a finished run."""
        if self._file is not None:
            self._file.write(f"{_head(job)}{line}}}\n".encode())
            self._file.flush()

    def __enter__(self) -> ResumeFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
