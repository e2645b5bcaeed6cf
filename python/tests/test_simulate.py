"""The package returns the same as the command, and errors name their place."""

import json
import math
import os
import pickle
import subprocess
import threading
import time
from pathlib import Path

import earmark
import pytest
from conftest import REPOSITORY, SCENARIO


@pytest.mark.parametrize(
    ("overrides", "arguments"),
    [
        ({}, []),
        ({"protocol": "rsvp", "refresh": "3s"}, ["protocol=rsvp", "refresh=3s"]),
        ({"retry.threshold": 2, "retry.counting": "tries"}, ["retry={threshold=2,counting='tries'}"]),
        (
            {"flows.best effort.rate": "150kbit", "flows.test.watch": False},
            ["flows.best effort.rate=150kbit", "flows.test.watch=false"],
        ),
    ],
)
def test_outcome_equals_that_of_the_command(command, small, overrides, arguments):
    for seed in (1, 2**64 - 1):
        line = [command, "simulate", small, "--json", "--seed", str(seed)]
        for argument in arguments:
            line += ["--set", argument]
        printed = subprocess.run(line, check=True, capture_output=True).stdout
        text = earmark.simulate_json(small, seed, overrides)
        assert text.encode() + b"\n" == printed
        assert earmark.simulate(str(small), seed, overrides) == json.loads(printed)


def test_repository_scenarios_run():
    scenario = REPOSITORY / "scenarios" / "retry-high.toml"
    outcome = earmark.simulate(scenario, duration="20s", discard="0s", flows__test__reserves="5s")
    assert outcome["scenario"] == "high load"
    [test] = outcome["watched"]
    assert (test["from"], test["to"]) == ("n0", "n6")
    assert len(test["received"]["rates"]) == 20
    assert outcome["wanted"] > 50


def test_overrides_and_keywords_are_equivalent(small):
    by_keys = earmark.simulate(small, seed=3, retry__threshold=3, flows__test__count=5)
    assert by_keys == earmark.simulate(
        small, 3, {"retry.threshold": 3, "flows.test.count": 5}
    )
    assert by_keys != earmark.simulate(small, 3)


def test_a_scenario_can_be_text(small, monkeypatch):
    monkeypatch.chdir(small.parent)
    assert earmark.simulate(SCENARIO, 5) == earmark.simulate(small, 5)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"retry.treshold": 3}, "`retry.treshold`: unknown field `treshold`"),
        ({"flows.tset.count": 3}, "flows has no element `tset`; there are `best effort`, `test`"),
        ({"refresh": 5}, "`refresh`: invalid type: integer `5`"),
        ({"flows.test.between": [["a", "x"]]}, "the topology has no node `x`"),
    ],
)
def test_invalid_override_is_named(small, overrides, told):
    with pytest.raises(earmark.ScenarioError, match="small.toml: ") as raised:
        earmark.simulate(small, 1, overrides)
    assert told in str(raised.value)
    assert isinstance(raised.value, ValueError)
    # Errors of workers on other machines are pickled.
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_errors_name_file_and_line(small):
    small.write_text(SCENARIO.replace('"40s"', '"40"'))
    with pytest.raises(earmark.ScenarioError, match="small.toml: line 5: `40`"):
        earmark.simulate(small)
    small.write_text(SCENARIO)
    topology = small.parent / "small-topology.toml"
    topology.write_text(topology.read_text().replace("1Mbit", "fast", 1))
    with pytest.raises(earmark.ScenarioError, match="small-topology.toml: line 4: link.bandwidth"):
        earmark.simulate(small)
    topology.unlink()
    with pytest.raises(earmark.ScenarioError, match="cannot read `small-topology.toml`: No such"):
        earmark.simulate(small)
    small.unlink()
    with pytest.raises(FileNotFoundError) as raised:
        earmark.simulate(small)
    assert Path(os.fsdecode(raised.value.filename)) == small


def test_unsupported_value_is_refused(small):
    for value in (None, {1, 2}, object()):
        with pytest.raises(TypeError, match="`flows.test.count`: a scenario has no"):
            earmark.simulate(small, flows__test__count=value)
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="`flows`: nothing in a scenario is that deep"):
        earmark.simulate(small, flows=endless)
    with pytest.raises(TypeError):
        earmark.simulate(7)
    for seed in (-1, 2**64):
        with pytest.raises(OverflowError):
            earmark.simulate(small, seed)
    with pytest.raises(earmark.ScenarioError, match="refresh"):
        earmark.simulate(small, refresh=math.nan)


def test_other_threads_continue(small):
    """A thread that sleeps a millisecond at a time wakes up many times during a run."""
    played = threading.Event()
    naps = 0

    def nap():
        nonlocal naps
        while not played.is_set():
            time.sleep(0.001)
            naps += 1

    sleeper = threading.Thread(target=nap)
    sleeper.start()
    began = time.monotonic()
    earmark.simulate_json(small, duration="3000s", flows__test__watch=False)
    took = time.monotonic() - began
    played.set()
    sleeper.join()
    assert naps > 20 * took, f"{naps} naps in {took:.3f} s"
