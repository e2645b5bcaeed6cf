"""Sweeps on processes and executors: rows, errors, interrupts, worker failures, and the file of finished runs."""

import json
import os
import pickle
import signal
import subprocess
import sys
import termios
import time
import tomllib
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import earmark
import pytest
from conftest import REPOSITORY, SCENARIO, TOPOLOGY

VALUES = {"retry.threshold": [0, 2, "infinite"], "flows.test.count": [2, 4]}
SEEDS = range(3, 6)
TABLES = ["runs", "flows", "attempts", "rates"]


def read(outcome):
    return {name: frame.to_pydict() for name, frame in outcome.frames("pyarrow").items()}


@pytest.fixture
def here():
    """An executor in this process, which counts the runs."""

    class Here(Executor):
        runs = 0

        def submit(self, call, /, *args, **kwargs):
            self.runs += 1
            future = Future()
            future.set_result(call(*args, **kwargs))
            return future

    return Here()


def test_rows_are_in_order_and_those_of_single_runs(small):
    outcome = earmark.sweep(small, VALUES, SEEDS, workers=2)
    expected = [
        (threshold, count, seed)
        for threshold in (0, 2, "infinite")
        for count in (2, 4)
        for seed in SEEDS
    ]
    assert len(outcome) == len(expected) == 18
    for (values, run), (threshold, count, seed) in zip(outcome, expected, strict=True):
        assert values == {"retry.threshold": threshold, "flows.test.count": count}
        assert run.to_json() == earmark.simulate_json(small, seed, values)
    runs = outcome.frames("pyarrow")["runs"]
    assert runs.column_names[:4] == ["retry.threshold", "flows.test.count", "scenario", "seed"]
    rows = zip(
        *(runs[name].to_pylist() for name in ("retry.threshold", "flows.test.count", "seed"))
    )
    assert list(rows) == [(str(threshold), count, seed) for threshold, count, seed in expected]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_are_those_of_the_runs_with_swept_columns(small, here, library):
    outcome = earmark.sweep(small, VALUES, SEEDS, on=here)
    single = earmark.frames([run for _, run in outcome], "pyarrow")
    for name, frame in outcome.frames(library).items():
        swept = read(outcome)[name]
        assert [*swept][:2] == [*VALUES] and [*swept][2:] == single[name].column_names
        assert {column: swept[column] for column in [*swept][2:]} == single[name].to_pydict()
        assert len(frame) == len(getattr(outcome, name)) == single[name].num_rows
    counts = outcome.frames("pyarrow")["rates"]["flows.test.count"].to_pylist()
    for count in (2, 4):
        rates = [
            len(flow.rates_bit_s)
            for values, run in outcome
            if values["flows.test.count"] == count
            for flow in run.watched
        ]
        assert counts.count(count) == sum(rates) > 0


def test_columns_have_the_type_of_their_values(small, here):
    pyarrow = pytest.importorskip("pyarrow")
    types = pyarrow.types
    for key, values, has_type in [
        ("retry.threshold", [1, 2], types.is_int64),
        ("retry.threshold", [1, "infinite"], types.is_string),
        ("flows.test.watch", [True, False], types.is_boolean),
        ("retry", [{"threshold": 1}, {"threshold": 2}], types.is_string),
    ]:
        table = pyarrow.table(earmark.sweep(small, {key: values}, [1], on=here).runs)
        assert has_type(table.schema.field(key).type), key


def test_outcome_does_not_depend_on_the_place(small, here):
    with ThreadPoolExecutor(3) as threads:
        outcomes = [
            earmark.sweep(small, VALUES, SEEDS, **where)
            for where in ({"workers": 1}, {"workers": 3}, {"on": threads}, {"on": here})
        ]
    assert all(read(outcome) == read(outcomes[0]) for outcome in outcomes[1:])


def test_outcomes_can_be_pickled(small, here):
    run = earmark.play(small, 3)
    again = pickle.loads(pickle.dumps(run))
    assert again.to_json() == run.to_json() and again.watched == run.watched
    for name, frame in run.frames("pyarrow").items():
        assert again.frames("pyarrow")[name].equals(frame), name
    assert run.watched[0].delay is not None
    idle = earmark.play(small, data="none", flows__test__reserves="50s")
    assert read(pickle.loads(pickle.dumps(idle))) == read(idle)
    outcome = earmark.sweep(small, VALUES, SEEDS, on=here)
    assert read(pickle.loads(pickle.dumps(outcome))) == read(outcome)
    with pytest.raises(
        ValueError, match="no outcome of this version of Earmark: missing field `seed`"
    ):
        earmark.RunOutcome.from_json('{"scenario": "small"}')


@pytest.mark.parametrize(
    "form", ["path", "text", "dict", "topology dict", "topology path", "graph"]
)
def test_workers_need_no_files(small, tmp_path, monkeypatch, form):
    """Runs begin when the files are gone."""

    class Late(ThreadPoolExecutor):
        def submit(self, call, /, *args, **kwargs):
            (tmp_path / "small-topology.toml").unlink(missing_ok=True)
            return super().submit(call, *args, **kwargs)

    monkeypatch.chdir(tmp_path)
    parsed, topology = tomllib.loads(SCENARIO), tomllib.loads(TOPOLOGY)
    expected = earmark.simulate(small, 3)
    scenario, keys = {
        "path": (small, {}),
        "text": (SCENARIO, {}),
        "dict": (parsed, {}),
        "topology dict": (small, {"topology": topology}),
        "topology path": (small, {"topology": "small-topology.toml"}),
        "graph": (small, {"topology": earmark.from_graph(graph(topology))}),
    }[form]
    with Late(1) as late:
        [(_, run)] = earmark.sweep(scenario, {}, [3], on=late, **keys)
    assert run.completed == expected["completed"] and run.events == expected["events"]


def graph(topology):
    networkx = pytest.importorskip("networkx")
    made = networkx.Graph()
    made.add_node("r1", role="router")
    for link in topology["link"]:
        made.add_edge(
            *link["ends"], **{key: link[key] for key in ("bandwidth", "delay", "reservable")}
        )
    return made


def test_topologies_and_profiles_can_be_swept(small, tmp_path, here):
    (tmp_path / "narrow.toml").write_text(TOPOLOGY.replace("220kbit", "120kbit"))
    topologies = ["small-topology.toml", "narrow.toml"]
    outcome = earmark.sweep(small, {"topology": topologies}, [3], on=here)
    held = [run.completed for _, run in outcome]
    assert held == [earmark.simulate(small, 3, topology=name)["completed"] for name in topologies]
    assert held[0] > held[1]
    published = REPOSITORY / "topologies" / "abilene.graphml"
    scenario = tomllib.loads(SCENARIO) | {"topology": {"file": str(published)}, "data": "none"}
    for flows in scenario["flows"]:
        flows["between"] = "random"
    swept = earmark.sweep(scenario, {"topology.bandwidth": ["1Mbit", "2Mbit"]}, [1], on=here)
    assert [run.wanted > 0 for _, run in swept] == [True, True]


def test_error_names_the_combination(small, here):
    values = {"retry.threshold": [0], "flows.test.count": [1, "many"]}
    for where in ({"workers": 2}, {"on": here}):
        with pytest.raises(earmark.ScenarioError) as raised:
            earmark.sweep(small, values, [7], **where)
        assert str(raised.value).startswith(f"{small}: ")
        told = 'in the run with retry.threshold = 0, flows.test.count = "many", seed 7'
        assert str(raised.value).endswith(told)
    with pytest.raises(TypeError, match="`flows.test.count`: a scenario has no") as raised:
        earmark.sweep(small, {"flows.test.count": [None]}, [7], on=here)
    assert raised.value.__notes__ == ["in the run with flows.test.count = null, seed 7"]
    with pytest.raises(FileNotFoundError):
        earmark.sweep(small.parent / "missing.toml", {}, [1], on=here)


@pytest.mark.parametrize(
    ("values", "seeds", "keys", "error"),
    [
        ({"retry.threshold": 3}, [1], {}, "`retry.threshold`: give a list of values, not 3"),
        ({"protocol": "rsvp"}, [1], {}, "`protocol`: give a list of values, not 'rsvp'"),
        ({"retry.threshold": []}, [1], {}, "`retry.threshold`: no values"),
        ({"retry.threshold": [1, 1]}, [1], {}, "`retry.threshold`: 1 is there twice"),
        ({"flows": [[]]}, [1], {}, "`flows` cannot be swept: the table `flows` has a column"),
        ({}, [1, 1], {}, "`seeds`: 1 is there twice"),
        ({}, 10, {}, "`seeds`: give a list of values, not 10"),
        ({}, [1], {"workers": 0}, "`workers` is the number of processes"),
        ({}, [1], {"on": "dask"}, '`on`: give "processes", a Dask client or an executor'),
    ],
)
def test_invalid_argument_is_named(small, values, seeds, keys, error):
    with pytest.raises((TypeError, ValueError)) as raised:
        earmark.sweep(small, values, seeds, **keys)
    assert error in str(raised.value)


def test_finished_runs_are_not_repeated(small, tmp_path, here):
    file = tmp_path / "runs.jsonl"
    first = earmark.sweep(small, VALUES, [3], on=here, resume=file)
    assert here.runs == 6
    again = earmark.sweep(small, VALUES, [3], on=here, resume=file)
    assert here.runs == 6 and read(again) == read(first)
    assert [run.to_json() for _, run in again] == [run.to_json() for _, run in first]
    more = earmark.sweep(small, VALUES, SEEDS, on=here, resume=file)
    assert here.runs == 18
    assert read(more) == read(earmark.sweep(small, VALUES, SEEDS, on=here))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 1 + 18 and lines[1]["outcome"]["seed"] == lines[1]["seed"] == 3


def test_torn_line_is_repeated(small, tmp_path, here):
    file = tmp_path / "runs.jsonl"
    first = earmark.sweep(small, VALUES, SEEDS, on=here, resume=file)
    text = file.read_bytes()
    file.write_bytes(text[:-100])
    here.runs = 0
    assert read(earmark.sweep(small, VALUES, SEEDS, on=here, resume=file)) == read(first)
    assert here.runs == 1 and file.read_bytes() == text


def test_file_of_another_sweep_is_refused(small, tmp_path, here):
    file = tmp_path / "runs.jsonl"
    earmark.sweep(small, VALUES, [3], on=here, resume=file)
    kept = file.read_bytes()
    with pytest.raises(ValueError, match="another sweep .different: keys.; give the name of a new"):
        earmark.sweep(small, {"retry.threshold": [0]}, [3], on=here, resume=file)
    topology = tmp_path / "small-topology.toml"
    topology.write_text(TOPOLOGY.replace("10ms", "11ms"))
    with pytest.raises(ValueError, match="another sweep .different: scenario_and_files."):
        earmark.sweep(small, VALUES, [3], on=here, resume=file)
    topology.write_text(TOPOLOGY)
    for text, line in [(b"[]\n", 1), (kept + b"{}\n", 8)]:
        file.write_bytes(text)
        with pytest.raises(
            ValueError, match=f"runs.jsonl: line {line}: this is no line of a sweep"
        ):
            earmark.sweep(small, VALUES, [3], on=here, resume=file)
        assert file.read_bytes() == text

    class Nested(type(here)):
        def submit(self, call, /, *args, **kwargs):
            return super().submit(lambda: earmark.sweep(small, {}, [1], on=here, resume=free))

    free = tmp_path / "free.jsonl"
    with pytest.raises(ValueError, match="another sweep is writing to this file"):
        earmark.sweep(small, {}, [1], on=Nested(), resume=free)


SCRIPT = """
import sys, earmark
scenario, file, progress = sys.argv[1:]
earmark.sweep(scenario, {"duration": ["5s", "50000s", "50001s", "50002s"]}, [1], workers=2, resume=file,
              progress=bool(progress))
"""


def begin(small, file, progress="", **keys):
    """Starts a sweep whose first run ends soon and whose others do not; returns it when the first run has ended."""
    text = small.read_text().replace("watch = true", "watch = false")
    small.write_text(text)
    command = [sys.executable, "-c", SCRIPT, small, file, progress]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, **keys)
    deadline = time.monotonic() + 30
    while not file.exists() or file.read_bytes().count(b"\n") < 2:
        assert time.monotonic() < deadline and process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    return process


def children(process):
    command = ["ps", "-o", "pid=", "--ppid", str(process.pid)]
    listed = subprocess.run(command, check=True, capture_output=True)
    return [int(pid) for pid in listed.stdout.split()]


@pytest.mark.parametrize("to", ["the parent", "the group, as Ctrl-C"])
def test_interrupt_ends_a_sweep_within_a_second(small, tmp_path, to):
    file = tmp_path / "runs.jsonl"
    process = begin(small, file, start_new_session=True)
    time.sleep(0.5)
    workers = children(process)
    assert len(workers) >= 2
    began = time.monotonic()
    (os.kill if to == "the parent" else os.killpg)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert time.monotonic() - began < 1
    assert process.returncode == -signal.SIGINT and b"KeyboardInterrupt" in errors
    time.sleep(0.2)
    assert not [pid for pid in workers if os.path.exists(f"/proc/{pid}/cwd")]
    assert len(file.read_bytes().splitlines()) == 2, "the finished run is kept"
    assert not errors.count(b"run/s"), "progress is for terminals"


def test_progress_is_shown_on_a_terminal(small, tmp_path):
    main, end = os.openpty()
    termios.tcsetwinsize(end, (24, 100))
    command = [
        sys.executable,
        "-c",
        SCRIPT.replace("50000s", "6s").replace(', "50001s", "50002s"', ""),
    ]
    for progress, shown in [("1", b"2/2"), ("", b"")]:
        file = tmp_path / f"runs{progress}.jsonl"
        subprocess.run([*command, small, file, progress], stderr=end, check=True)
        os.write(end, b"|end\n")
        text = b""
        while b"|end" not in text:
            text += os.read(main, 10_000)
        assert shown in text and (progress or text.strip() == b"|end"), text


def die_once(call, marker):
    """Kills the worker process in the first run."""

    def run(*arguments):
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return call(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return run


def test_run_of_a_killed_worker_is_repeated(small, tmp_path, monkeypatch, here):
    from earmark import workers

    monkeypatch.setattr(workers, "run", die_once(workers.run, tmp_path / "died"))
    outcome = earmark.sweep(small, VALUES, SEEDS, workers=2)
    assert (tmp_path / "died").exists()
    monkeypatch.undo()
    assert read(outcome) == read(earmark.sweep(small, VALUES, SEEDS, on=here))


def test_run_that_always_kills_its_worker_is_named(small, monkeypatch):
    from earmark import workers

    monkeypatch.setattr(workers, "run", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(BrokenExecutor) as raised:
        earmark.sweep(small, {"retry.threshold": [1]}, [4], workers=1, retries=1)
    assert "retry.threshold = 1, seed 4" in raised.value.__notes__[0]
