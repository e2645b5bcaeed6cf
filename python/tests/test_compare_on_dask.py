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
