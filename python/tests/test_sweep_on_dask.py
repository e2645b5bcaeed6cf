"""Example of a sweep on Dask, on a cluster of its own and on an existing one."""

import csv
import os
import signal

import earmark
import pytest
import sweep_on_dask
from distributed import Client, LocalCluster

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


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, reached by the address of their scheduler."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        assert cluster.scheduler_address.startswith("tcp://")
        yield cluster


def test_existing_scheduler_gives_the_same_file(small, tmp_path, cluster):
    alone, together = tmp_path / "alone.csv", tmp_path / "together.csv"
    sweep_on_dask.main([str(small), *SWEEP, "--out", str(alone)])
    arguments = [*SWEEP, "--scheduler", cluster.scheduler_address, "--out", str(together)]
    sweep_on_dask.main([str(small), *arguments])
    assert together.read_bytes() == alone.read_bytes()


def test_resumed_sweep_gives_the_same_file(small, tmp_path, cluster):
    alone, resumed, runs = (tmp_path / name for name in ("alone.csv", "resumed.csv", "runs.jsonl"))
    sweep_on_dask.main([str(small), *SWEEP, "--out", str(alone), "--resume", str(runs)])
    lines = runs.read_bytes().splitlines(keepends=True)
    runs.write_bytes(b"".join(lines[:7]))
    options = ["--out", str(resumed), "--resume", str(runs)]
    sweep_on_dask.main([str(small), *SWEEP, *options, "--scheduler", cluster.scheduler_address])
    assert resumed.read_bytes() == alone.read_bytes()
    assert sorted(runs.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_errors_of_workers_are_raised(small, tmp_path, cluster):
    sweep = [str(small), "--set", "retry.treshold=1", "--out", str(tmp_path / "x")]
    for scheduler in ([], ["--scheduler", cluster.scheduler_address]):
        told = "unknown field `treshold`.*; in the run with retry.treshold = 1, seed 1"
        with pytest.raises(earmark.ScenarioError, match=told):
            sweep_on_dask.main([*sweep, "--seeds", "1", *scheduler])


def test_run_of_a_killed_worker_is_repeated(small, tmp_path, cluster, monkeypatch):
    from earmark import workers

    expected = [run.to_json() for _, run in earmark.sweep(small, {}, range(1, 5), workers=1)]
    marker, run = tmp_path / "died", workers.run

    def die_once(*arguments):
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return run(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(workers, "run", die_once)
    with Client(cluster) as client:
        outcome = earmark.sweep(small, {}, range(1, 5), on=client)
    assert marker.exists()
    assert [run.to_json() for _, run in outcome] == expected
