"""Example of the comparison on Dask: rows in the order of the list, whatever the workers, and after an interruption."""

import json

import compare_on_dask
import earmark
import pytest


@pytest.fixture
def cases(small, tmp_path):
    """Two scenarios with three seeds each, as earmark-studies exports them."""
    folder = tmp_path / "cases"
    folder.mkdir()
    text = small.read_text()
    topology = "small-topology.toml"
    (folder / topology).write_text((small.parent / topology).read_text())
    runs = []
    for protocol in ("rsvp", "yessir"):
        name = f"{protocol}.toml"
        (folder / name).write_text(text.replace('protocol = "yessir"', f'protocol = "{protocol}"'))
        for seed in (1, 2, 3):
            run = dict(zip(compare_on_dask.COLUMNS, ["small", "light", 2, protocol, seed]))
            runs.append(run | {"scenario": name, "files": [topology]})
    (folder / "runs.jsonl").write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    return folder


def test_rows_are_those_of_single_runs(cases, tmp_path):
    out = tmp_path / "rows.jsonl"
    compare_on_dask.main([str(cases), "--out", str(out), "--workers", "2"])
    rows = out.read_text().splitlines()
    assert [json.loads(row)["seed"] for row in rows] == [1, 2, 3] * 2
    for row in rows:
        columns = json.loads(row)
        line = earmark.simulate_json(cases / f"{columns['protocol']}.toml", columns["seed"])
        assert row.endswith(f',"outcome":{line}}}')

    # Two rows and half of another one are there; one is not that of a run, and would not be there otherwise.
    marked = rows[4].replace('"events":', '"events":9')
    out.write_text(f"{marked}\n{rows[0]}\n{rows[1][:50]}")
    compare_on_dask.main([str(cases), "--out", str(out), "--workers", "1"])
    again = out.read_text().splitlines()
    assert again == [*rows[:4], marked, rows[5]]


def test_runs_with_more_flows_are_played_later(cases, tmp_path):
    runs = [json.loads(line) for line in (cases / "runs.jsonl").read_text().splitlines()]
    for run in runs[1:3]:
        run["flows"] = 3
    (cases / "runs.jsonl").write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    out = tmp_path / "rows.jsonl"
    compare_on_dask.main([str(cases), "--out", str(out), "--workers", "1", "--most-flows", "2"])
    few = out.read_text().splitlines()
    assert [json.loads(row)["flows"] for row in few] == [2] * 4
    compare_on_dask.main([str(cases), "--out", str(out), "--workers", "1"])
    all_rows = out.read_text().splitlines()
    assert [json.loads(row)["flows"] for row in all_rows] == [2, 3, 3, 2, 2, 2]
    assert [all_rows[0], *all_rows[3:]] == few


def refusal(cases, out):
    """Runs the example, which refuses its input; returns the reason."""
    with pytest.raises(SystemExit) as exit:
        compare_on_dask.main([str(cases), "--out", str(out), "--workers", "1"])
    return exit.value.code


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda cases: (cases / "runs.jsonl").unlink(), "runs.jsonl: there is no such file; `earmark-studies study"),
        (lambda cases: (cases / "runs.jsonl").write_text(""), "runs.jsonl: the list has no runs"),
        (lambda cases: (cases / "small-topology.toml").unlink(), "small-topology.toml: a run of "),
        (
            lambda cases: (cases / "runs.jsonl").write_text((cases / "runs.jsonl").read_text()[:-30]),
            "runs.jsonl:6: this line is damaged",
        ),
        (
            lambda cases: (cases / "runs.jsonl").write_text((cases / "runs.jsonl").read_text().replace("seed", "run")),
            "runs.jsonl:1: the columns are not network, ",
        ),
    ],
)
def test_broken_cases_are_refused(cases, tmp_path, damage, reason):
    damage(cases)
    out = tmp_path / "rows.jsonl"
    assert reason in refusal(cases, out)
    assert not out.exists()


ROW = '{"network":"small","condition":"light","flows":2,"protocol":"rsvp","seed":1,"outcome":{}}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (ROW[:40], "rows.jsonl:2: this line is damaged"),
        (ROW.replace('"flows":2,', ""), "rows.jsonl:2: the columns are not network, "),
        (ROW.replace("small", "abilene"), "1 rows are of runs that "),
    ],
)
def test_rows_that_cannot_be_used_are_kept(cases, tmp_path, line, reason):
    out = tmp_path / "rows.jsonl"
    text = f"{ROW}\n{line}\n{ROW[:20]}"
    out.write_text(text)
    assert reason in refusal(cases, out)
    assert out.read_text() == text


def test_run_that_cannot_be_played_is_named_and_the_other_rows_are_kept(cases, tmp_path):
    scenario = cases / "yessir.toml"
    scenario.write_text(scenario.read_text().replace('"5s"', '"soon"'))
    out = tmp_path / "rows.jsonl"
    out.write_text(f"{ROW}\n{ROW[:20]}")
    error = refusal(cases, out)
    assert "yessir.toml, seed " in error and "soon" in error, error
    rows = out.read_text().splitlines()
    assert rows[0] == ROW
    assert all("outcome" in json.loads(row) for row in rows)


def test_worker_of_another_version_is_refused():
    with pytest.raises(RuntimeError, match="a worker has earmark .*, and not 0.0.1; install the same"):
        compare_on_dask.play({}, json.loads(ROW), "0.0.1")
