"""Example of a sweep on Dask, on a cluster of its own and on an existing one."""

import csv

import earmark
import pytest
import sweep_on_dask
from distributed import LocalCluster

SWEEP = ["--set", "retry.threshold=0,2,infinite", "--set", "flows.test.count=2,4", "--seeds", "3"]


def test_rows_are_those_of_single_runs(small, tmp_path):
    out = tmp_path / "sweep.csv"
    sweep_on_dask.main([str(small), *SWEEP, "--out", str(out)])
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["retry.threshold"], row["flows.test.count"], row["seed"]) for row in rows] == [
        (threshold, count, seed)
        for threshold in ("0", "2", "infinite")
        for count in ("2", "4")
        for seed in ("1", "2", "3")
    ]
    for row in rows:
        threshold = sweep_on_dask.number(row["retry.threshold"])
        outcome = earmark.simulate(
            small,
            int(row["seed"]),
            retry__threshold=threshold,
            flows__test__count=int(row["flows.test.count"]),
        )
        for count in sweep_on_dask.COUNTS:
            assert row[count] == str(outcome[count])
        completed_after = outcome["watched"][0]["completed_after"]
        assert row["completed_after"] == ("" if completed_after is None else str(completed_after))


def test_existing_scheduler_gives_the_same_file(small, tmp_path):
    """Worker processes, reached by the address of their scheduler, produce the same file."""
    alone, together = tmp_path / "alone.csv", tmp_path / "together.csv"
    sweep_on_dask.main([str(small), *SWEEP, "--out", str(alone)])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        assert cluster.scheduler_address.startswith("tcp://")
        arguments = [*SWEEP, "--scheduler", cluster.scheduler_address, "--out", str(together)]
        sweep_on_dask.main([str(small), *arguments])
    assert together.read_bytes() == alone.read_bytes()


def test_errors_of_workers_are_raised(small, tmp_path):
    with pytest.raises(earmark.ScenarioError, match="unknown field `treshold`"):
        sweep_on_dask.main([str(small), "--set", "retry.treshold=1", "--out", str(tmp_path / "x")])
