#!/usr/bin/env python3
"""A sweep over keys of a scenario, each with many seeds, spread over the workers of a Dask cluster.

    sweep_on_dask.py scenarios/retry-high.toml --set retry.threshold=0,1,3,10,infinite --seeds 30 --out sweep.csv
    sweep_on_dask.py scenarios/retry-high.toml --seeds 1000 --scheduler tcp://10.1.2.3:8786

Without --scheduler the runs use the processors of this machine. Workers need only the package earmark: the script sends them the
scenario and its topology. Rows are in the order of the values and seeds, so the file does not depend on the number of workers or
on the order of the runs.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, as_completed

import earmark

COUNTS = ["events", "attempts", "retries", "refused_retries", "wanted", "completed"]


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    files, moved = read(options.scenario)
    keys = [key for key, _ in options.set]
    seeds = range(options.seed, options.seed + options.seeds)
    runs = list(itertools.product(*(values for _, values in options.set), seeds))
    with cluster(options.scheduler) as client:
        # Every worker gets the files once, rather than with each run.
        shared = client.scatter(files, broadcast=True)
        futures = [
            client.submit(play, shared, moved | dict(zip(keys, run)), run[-1]) for run in runs
        ]
        for done, _ in enumerate(as_completed(futures, raise_errors=False), start=1):
            print(f"\r{done} of {len(runs)} runs", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        rows = client.gather(futures)
    with options.out.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow([*keys, "seed", *COUNTS, "completed_after"])
        table.writerows([*run, *row] for run, row in zip(runs, rows))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", type=Path, help="the scenario, a TOML file")
    parser.add_argument(
        "--set",
        type=values,
        action="append",
        default=[],
        metavar="KEY=VALUE,VALUE...",
        help="values of a key; all combinations are played",
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds")
    parser.add_argument("--scheduler", help="address of a Dask scheduler, tcp://HOST:8786")
    parser.add_argument("--out", type=Path, default=Path("sweep.csv"), help="the CSV file")
    return parser.parse_args(arguments)


def values(text: str) -> tuple[str, list[Any]]:
    """Parses KEY=VALUE,VALUE: values that are no numbers are strings."""
    key, equals, listed = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write KEY=VALUE,VALUE")
    return key, [number(value) for value in listed.split(",")]


def number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read(scenario: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the files of scenario and topology, and an override with the topology's new path, if it is a file."""
    text = scenario.read_text()
    topology, key = tomllib.loads(text)["topology"], "topology"
    if isinstance(topology, dict):
        topology, key = topology.get("file"), "topology.file"
    if topology is None:  # made by a model
        return {"scenario.toml": text}, {}
    file = scenario.parent / topology
    name = "topology" + file.suffix
    return {"scenario.toml": text, name: file.read_text()}, {key: name}


def cluster(scheduler: str | None) -> Client:
    if scheduler:
        return Client(scheduler)
    # Threads suffice: a run releases the interpreter lock.
    return Client(LocalCluster(n_workers=1, processes=False, dashboard_address=":0"))


def play(files: dict[str, str], overrides: dict[str, Any], seed: int) -> list[Any]:
    """Runs one seed on a worker; returns its cells of the table."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text)
        outcome = earmark.simulate(Path(folder, "scenario.toml"), seed, overrides)
    watched = outcome["watched"]
    completed_after = watched[0]["completed_after"] if watched else None
    return [*(outcome[count] for count in COUNTS), completed_after]


if __name__ == "__main__":
    main()
