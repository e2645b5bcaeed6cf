#!/usr/bin/env python3
"""A sweep over keys of a scenario, each with many seeds, on the processors of this machine or on a Dask cluster.

    sweep_on_dask.py scenarios/retry-high.toml --set retry.threshold=0,1,3,10,infinite --seeds 30 --out sweep.csv
    sweep_on_dask.py scenarios/retry-high.toml --seeds 1000 --scheduler tcp://10.1.2.3:8786

This is a command line over `earmark.sweep`. Workers need only the package earmark. Rows are in the order of the values and seeds,
so the file does not depend on the number of workers or on the order of the runs. With --resume, finished runs are kept in a file,
and an interrupted sweep goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import earmark

COUNTS = ["events", "attempts", "retries", "refused_retries", "wanted", "completed"]


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    with place(options.scheduler) as on:
        outcome = earmark.sweep(
            options.scenario,
            dict(options.set),
            range(options.seed, options.seed + options.seeds),
            on=on,
            resume=options.resume,
        )
    with options.out.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow([*outcome.keys, "seed", *COUNTS, "completed_after"])
        for values, run in outcome:
            counts = run.to_dict()
            completed_after = run.watched[0].completed_after_s if run.watched else None
            row = [*values.values(), run.seed, *(counts[count] for count in COUNTS)]
            table.writerow([*row, completed_after])


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
    parser.add_argument("--resume", type=Path, help="file of finished runs, JSON lines")
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


def place(scheduler: str | None) -> Any:
    """Returns where the runs are, as a context: processes of this machine, or a client of a Dask scheduler."""
    if scheduler is None:
        return nullcontext("processes")
    import distributed

    client: Any = distributed.Client
    return client(scheduler)


if __name__ == "__main__":
    main()
