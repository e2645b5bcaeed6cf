#!/usr/bin/env python3
"""The comparison of all protocols, spread over the workers of a Dask cluster.

    earmark-studies study compare --extent full --export cases
    compare_on_dask.py cases --out rows.jsonl --workers 2
    compare_on_dask.py cases --out rows.jsonl --workers 2 --most-flows 100000
    compare_on_dask.py cases --out rows.jsonl --scheduler tcp://10.1.2.3:8786
    earmark-studies study compare --extent full --rows rows.jsonl --out compare

Workers need only the package earmark. Runs whose rows are in the file are not played again, so that an interrupted comparison
continues; a run whose worker dies is played again elsewhere. At the end the rows are in the order of the list, so that the file is the
same whatever the number of workers, and the same as that of earmark-studies. A million flows take up to 13 GB of a worker's memory; leave
them out by --most-flows where workers have less, and play them by fewer workers afterwards.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

import distributed
import earmark

COLUMNS = ("network", "condition", "flows", "protocol", "seed")
# Dask has no types.
dask: Any = distributed
# A worker may die several times without the fault of the run.
RETRIES = 3


class ComparisonError(Exception):
    """Input that cannot be used, or a run that cannot be played; the message says what to do."""


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    try:
        compare(options.cases, options.out, options)
    except (ComparisonError, OSError) as error:
        sys.exit(f"error: {error}")


def compare(cases: Path, out: Path, options: argparse.Namespace) -> None:
    runs = listed(cases)
    rows = played(out)
    others = rows.keys() - {key(run) for run in runs}
    if others:
        raise ComparisonError(
            f"{out}: {len(others)} rows are of runs that {cases} does not have, one is {min(others)}; "
            "give the cases that were played, or another --out"
        )
    missing = [run for run in runs if key(run) not in rows and within(run, options.most_flows)]
    with cluster(options) as client, appending(out) as file:
        files = {name.name: name.read_text() for name in cases.iterdir() if name.name != "runs.jsonl"}
        # Every worker gets the scenarios once, rather than with each run.
        shared = client.scatter(files, broadcast=True)
        futures = {
            client.submit(play, shared, run, earmark.__version__, retries=RETRIES): run for run in missing
        }
        for done, future in enumerate(dask.as_completed(futures), start=1):
            run = futures[future]
            try:
                line = future.result()
            except Exception as error:
                place = f"{cases / run['scenario']}, seed {run['seed']}"
                raise ComparisonError(f"{place}: {error}\nThe rows so far are in {out}.") from error
            rows[key(run)] = line
            file.write(f"{line}\n")
            file.flush()
            print(f"\r{done} of {len(missing)} runs", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    # The file always has all rows, also if this program is killed now.
    ordered = out.with_name(f"{out.name}.partial")
    ordered.write_text("".join(f"{rows[key(run)]}\n" for run in runs if key(run) in rows))
    ordered.replace(out)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, help="directory that earmark-studies has exported")
    parser.add_argument("--out", type=Path, default=Path("rows.jsonl"), help="the rows")
    parser.add_argument("--most-flows", type=int, help="leave out runs with more flows")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", help="address of a Dask scheduler, tcp://HOST:8786")
    where.add_argument("--workers", type=int, help="processes on this machine [one a processor]")
    return parser.parse_args(arguments)


def cluster(options: argparse.Namespace) -> Any:
    if options.scheduler:
        return dask.Client(options.scheduler)
    workers = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    return dask.Client(dask.LocalCluster(**workers))


def within(run: dict[str, Any], most_flows: int | None) -> bool:
    return most_flows is None or run["flows"] <= most_flows


def key(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in COLUMNS)


def listed(cases: Path) -> list[dict[str, Any]]:
    """Returns the runs of a directory, whose files are all there."""
    file = cases / "runs.jsonl"
    again = f"`earmark-studies study compare --export {cases}` writes it"
    if not file.is_file():
        raise ComparisonError(f"{file}: there is no such file; {again}")
    lines = enumerate(file.read_text().splitlines(), start=1)
    runs = [parsed(line, (*COLUMNS, "scenario", "files"), f"{file}:{number}", again) for number, line in lines]
    if not runs:
        raise ComparisonError(f"{file}: the list has no runs; {again}")
    for name in sorted({name for run in runs for name in (run["scenario"], *run["files"])}):
        if not (cases / name).is_file():
            raise ComparisonError(f"{cases / name}: a run of {file} needs this file, which is not there; {again}")
    return runs


def played(out: Path) -> dict[tuple[Any, ...], str]:
    """Returns the rows of a file; the last line is left out if it is incomplete."""
    lines = out.read_text().splitlines(keepends=True) if out.exists() else []
    complete = (line.rstrip("\n") for line in lines if line.endswith("\n"))
    again = "remove the line, or give another --out, and the run is played again"
    rows = {}
    for number, line in enumerate(complete, start=1):
        rows[key(parsed(line, (*COLUMNS, "outcome"), f"{out}:{number}", again))] = line
    return rows


def parsed(line: str, columns: tuple[str, ...], place: str, help: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise ComparisonError(f"{place}: this line is damaged ({error}); {help}") from error
    if not isinstance(values, dict) or tuple(values) != columns:
        raise ComparisonError(
            f"{place}: the columns are not {', '.join(columns)}, so another version has written this file; {help}"
        )
    return values


def appending(out: Path) -> TextIO:
    """Opens a file of rows to append some, without an incomplete last line."""
    file = out.open("a+b")
    file.seek(0)
    file.truncate(file.read().rfind(b"\n") + 1)
    return io.TextIOWrapper(file)


def play(files: dict[str, str], run: dict[str, Any], version: str) -> str:
    """Plays a run on a worker; returns its row."""
    if earmark.__version__ != version:
        raise RuntimeError(f"a worker has earmark {earmark.__version__}, and not {version}; install the same everywhere")
    with tempfile.TemporaryDirectory() as folder:
        for name in (run["scenario"], *run["files"]):
            Path(folder, name).write_text(files[name])
        outcome = earmark.simulate_json(Path(folder, str(run["scenario"])), run["seed"])
    columns = {name: run[name] for name in COLUMNS}
    begin = json.dumps(columns, separators=(",", ":"))
    return f'{begin[:-1]},"outcome":{outcome}}}'


if __name__ == "__main__":
    main()
