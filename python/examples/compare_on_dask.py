#!/usr/bin/env python3
"""The comparison of all protocols, spread over the workers of a Dask cluster.

    earmark-studies study compare --extent full --export cases
    compare_on_dask.py cases --out rows.jsonl --workers 2
    compare_on_dask.py cases --out rows.jsonl --scheduler tcp://10.1.2.3:8786
    earmark-studies study compare --extent full --rows rows.jsonl --out compare

Workers need only the package earmark. Runs whose rows are in the file are not played again, so that an interrupted comparison
continues; a run whose worker dies is played again elsewhere. At the end the rows are in the order of the list, so that the file is the
same whatever the number of workers, and the same as that of earmark-studies.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import distributed
import earmark

COLUMNS = ("network", "condition", "flows", "protocol", "seed")
# Dask has no types.
dask: Any = distributed
# A worker may die several times without the fault of the run.
RETRIES = 3


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    runs = [json.loads(line) for line in (options.cases / "runs.jsonl").read_text().splitlines()]
    rows = {key(run): line for run, line in played(options.out)}
    missing = [run for run in runs if key(run) not in rows]
    with cluster(options) as client, options.out.open("w") as out:
        out.writelines(f"{line}\n" for line in rows.values())
        files = {name.name: name.read_text() for name in options.cases.iterdir() if name.name != "runs.jsonl"}
        # Every worker gets the scenarios once, rather than with each run.
        shared = client.scatter(files, broadcast=True)
        futures = {client.submit(play, shared, run, retries=RETRIES): run for run in missing}
        for done, future in enumerate(dask.as_completed(futures), start=1):
            rows[key(futures[future])] = line = future.result()
            out.write(f"{line}\n")
            out.flush()
            print(f"\r{done} of {len(missing)} runs", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    options.out.write_text("".join(f"{rows[key(run)]}\n" for run in runs))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path, help="directory that earmark-studies has exported")
    parser.add_argument("--out", type=Path, default=Path("rows.jsonl"), help="the rows")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--scheduler", help="address of a Dask scheduler, tcp://HOST:8786")
    where.add_argument("--workers", type=int, help="processes on this machine [one a processor]")
    return parser.parse_args(arguments)


def cluster(options: argparse.Namespace) -> Any:
    if options.scheduler:
        return dask.Client(options.scheduler)
    workers = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    return dask.Client(dask.LocalCluster(**workers))


def key(run: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(run[name] for name in COLUMNS)


def played(out: Path) -> list[tuple[dict[str, Any], str]]:
    """Returns the rows of a file; the last line is left out if it is incomplete."""
    lines = out.read_text().splitlines(keepends=True) if out.exists() else []
    return [(json.loads(line), line.rstrip("\n")) for line in lines if line.endswith("\n")]


def play(files: dict[str, str], run: dict[str, Any]) -> str:
    """Plays a run on a worker; returns its row."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (run["scenario"], *run["files"]):
            Path(folder, name).write_text(files[name])
        outcome = earmark.simulate_json(Path(folder, str(run["scenario"])), run["seed"])
    columns = {name: run[name] for name in COLUMNS}
    begin = json.dumps(columns, separators=(",", ":"))
    return f'{begin[:-1]},"outcome":{outcome}}}'


if __name__ == "__main__":
    main()
