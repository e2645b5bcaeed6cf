"""The package returns the same as the command, and errors name their place."""

import json
import math
import os
import pickle
import random
import subprocess
import threading
import time
import tomllib
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


def traced(arrivals, lifetimes, loss=None):
    """The scenario as a dict, with traces for its test flows."""
    scenario = tomllib.loads(SCENARIO)
    test = scenario["flows"][1]
    del test["count"]
    test |= {"arrivals": arrivals, "lifetime": lifetimes, "reserves": "0s"}
    if loss is not None:
        scenario["faults"] = [{"link": ["a", "r1"], "loss": loss}]
    return scenario


def test_arrays_are_traces_of_arrivals_and_lifetimes(small, monkeypatch):
    monkeypatch.chdir(small.parent)
    scenario = traced(["0s", "3.25s", "20s", "90s"], ["5s", "1.5s", "100s", "1s"])
    watched = earmark.simulate(scenario, 1)["watched"]
    flows = sorted(watched, key=lambda flow: flow["reserves"])
    # The last one would start after the run.
    assert [flow["reserves"] for flow in flows] == [0.0, 3.25, 20.0]
    for flow, (begin, end) in zip(flows, [(0, 6), (3, 6), (20, 40)], strict=True):
        received = [second for second, rate in enumerate(flow["received"]["rates"]) if rate > 0]
        assert received == list(range(received[0], received[-1] + 1))
        assert begin <= received[0] and received[-1] < end
    # Any law, as arrays: here an on-off modulated process of arrivals with lifetimes of two kinds.
    dice = random.Random(7)
    times, now = [], 0.0
    while now < 40.0:
        now += dice.expovariate(2.0 if int(now) % 10 < 5 else 0.2)
        times.append(now)
    lifetimes = [dice.choice([1.0, 4.0]) * dice.uniform(0.5, 1.5) for _ in times]
    scenario = traced([f"{time:.6f}s" for time in times], [f"{time:.6f}s" for time in lifetimes])
    flows = earmark.simulate(scenario, 1)["watched"]
    expected = [time for time in times if time < 40.0]
    assert sorted(flow["reserves"] for flow in flows) == pytest.approx(expected, abs=1e-6)


def test_arrays_are_traces_of_losses(small, monkeypatch):
    monkeypatch.chdir(small.parent)

    def completed(loss):
        [flow] = earmark.simulate(traced(["2s"], ["30s"], loss), 1)["watched"]
        return flow["completed_after"]

    at_once = completed(None)
    assert completed([False]) == completed(0.0001) == at_once
    assert completed([True]) is completed(1.0) is None
    lost_at_first = completed([True] + 1_000 * [False])
    assert at_once + 1.0 < lost_at_first < 10.0


def test_hosts_move_by_lists():
    link = {"bandwidth": "1Mbit", "delay": "1ms"}
    ends = [["b", "r0"], ["r0", "r1"], ["r0", "r2"], ["r2", "r1"], ["a", "r1"], ["a", "r2"]]
    topology = {
        "node": [{"name": f"r{number}", "role": "router"} for number in range(3)]
        + [{"name": name, "role": "host"} for name in "ab"],
        "link": [{"ends": pair, **link} for pair in ends],
    }
    scenario = {
        "name": "mobile",
        "topology": "none.toml",
        "protocol": "nsis",
        "duration": "60s",
        "data": "none",
        "flows": [{"name": "call", "between": [["a", "b"]], "rate": "9kbit", "reserves": "0s"}],
        "mobility": [{"nodes": ["a"], "moves": [[f"{at}s", to] for at, to in [(10, "r2"), (35, "r1")]]}],
    }
    outcome = earmark.play(scenario, 1, topology=topology)
    assert (outcome.interruptions, outcome.recoveries) == (2, 2)
    scenario["mobility"][0]["moves"][0][1] = "r0"
    with pytest.raises(earmark.ScenarioError, match="`r0`: a host has no link to this router"):
        earmark.play(scenario, 1, topology=topology)


def test_paths_through_firewalls_are_counted(small):
    outcome = earmark.play(REPOSITORY / "scenarios" / "firewalls.toml", 1)
    assert outcome.paths is not None and outcome.paths.waits_s is not None
    assert (outcome.paths.asked, outcome.paths.granted, len(outcome.paths.waits_s)) == (5, 5, 3)
    assert earmark.play(small, 1).paths is None


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        (traced([0.0, 1.5], ["5s", "5s"]), "a list of times such as"),
        (traced(["0s", "1.5"], ["5s", "5s"]), "time 2 of the list, `1.5`: a time is a number and its"),
        (traced(["0s", "1s"], ["5s"]), "the list of arrivals has length 2, that of lifetimes 1: give"),
        (traced(["2s", "1s"], ["5s", "5s"]), "`flows.test.arrivals.1`: it is before the preceding"),
        (traced("poisson", ["5s"]), "`flows.test.lifetime`: a list needs a list of as many arrivals"),
        (traced(["0s"], ["5s"], []), "loss: the list is empty"),
        (traced(["0s"], ["5s"], [0, 1]), "a list of true and false"),
    ],
)
def test_invalid_trace_is_named(small, monkeypatch, scenario, told):
    monkeypatch.chdir(small.parent)
    with pytest.raises(earmark.ScenarioError) as raised:
        earmark.simulate(scenario)
    assert told in str(raised.value)


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
