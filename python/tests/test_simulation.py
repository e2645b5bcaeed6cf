"""Runs step by step: state between steps, callbacks, interrupts."""

import _thread
import signal
import threading
import time
import tomllib

import earmark
import pytest
from conftest import SCENARIO


def test_steps_do_not_change_the_outcome(small):
    sim = earmark.Simulation(small, 3)
    assert (sim.now, sim.end) == (0.0, 40.0)
    for second in range(1, 20):
        sim.step(until=second)
        assert sim.now == second
    outcome = sim.run()
    assert outcome.to_json() == earmark.simulate_json(small, 3)
    with pytest.raises(RuntimeError, match="the simulation has ended"):
        sim.step(until=40)


def test_state_can_be_seen_between_steps(small):
    sim = earmark.Simulation(small, 3, flows__test__lifetime="forever")
    assert sim.nodes() == ["r1", "a", "b"]
    assert sim.sessions() == []
    sim.step(until=10)
    held = {(link["node"], link["peer"]): link["held_bps"] for link in sim.links()}
    assert held == {("r1", "a"): 0, ("r1", "b"): 200_000, ("a", "r1"): 200_000, ("b", "r1"): 0}
    assert len(sim.reservations("r1")) == 2
    assert {session["protocol"] for session in sim.sessions("r1")} == {"yessir"}
    assert {session["node"] for session in sim.sessions()} == {"r1", "a"}
    with pytest.raises(KeyError, match="no node `x`"):
        sim.sessions("x")
    with pytest.raises(ValueError, match="it is 10 s already"):
        sim.step(until=9)
    with pytest.raises(ValueError, match="until"):
        sim.step(until=float("nan"))


def test_early_end_gives_the_outcome_so_far(small):
    sim = earmark.Simulation(small)
    sim.step(until=5)
    outcome = sim.finish()
    assert outcome.watched and all(len(flow.rates_bit_s) == 5 for flow in outcome.watched)


def test_messages_are_seen_and_dropped(small):
    sim = earmark.Simulation(small, duration="10s")
    seen = []
    sim.on_message(seen.append)
    assert sim.run().to_dict()["completed"] > 0
    first = seen[0]
    assert (first.node, first.peer, first.direction) == ("a", "r1", "out")
    assert first.packet.endswith(first.octets) and first.packet[0] == 0x46
    assert {message.direction for message in seen} == {"in", "out"}
    assert any("YESSIR" in message.text.upper() for message in seen), seen[0].text

    sim = earmark.Simulation(small, duration="10s")
    sim.on_message(lambda message: False)
    assert sim.run().completed == 0


def test_messages_are_replaced(small):
    sim = earmark.Simulation(small, duration="10s")
    received = []

    def cut(message):
        if message.direction == "in":
            received.append(message.octets)
            return None
        return message.octets[:8]

    sim.on_message(cut)
    assert sim.run().completed == 0
    assert received and all(len(octets) == 8 for octets in received)


def test_admission_is_asked(small):
    asked = []

    def policy(request):
        asked.append(request)
        return request.node != "r1"

    sim = earmark.Simulation(small, duration="10s")
    sim.on_admission(policy)
    outcome = sim.run()
    assert outcome.completed == 0
    [request, *_] = [request for request in asked if request.node == "r1"]
    assert (request.peer, request.rate_bit_s, request.previous_bit_s) == ("b", 100_000, None)
    assert request.free_bit_s == request.reservable_bit_s == 220_000
    refusals = [attempt.outcome for flow in outcome.watched for attempt in flow.attempts]
    assert earmark.Refused("r1", 0) in refusals

    sim = earmark.Simulation(small, duration="10s", flows__test__lifetime="forever")
    sim.on_admission(lambda request: True)
    assert sim.run().completed == 3, "more than the link has"


@pytest.mark.parametrize("register", ["on_message", "on_admission"])
def test_exception_of_a_callback_is_raised_unchanged(small, register):
    raised = LookupError("of the callback")

    def callback(_):
        raise raised

    sim = earmark.Simulation(small)
    getattr(sim, register)(callback)
    with pytest.raises(LookupError) as caught:
        sim.run()
    assert caught.value is raised
    with pytest.raises(RuntimeError, match="has ended"):
        sim.step(until=20)


def test_callback_cannot_step(small):
    sim = earmark.Simulation(small)
    sim.on_message(lambda message: sim.now)
    with pytest.raises(RuntimeError, match="a callback cannot"):
        sim.run()
    sim = earmark.Simulation(small)
    sim.on_message(lambda message: 7)
    with pytest.raises(TypeError, match="on_message: return None to pass"):
        sim.run()



@pytest.mark.parametrize("how", ["simulate", "run"])
def test_interrupt_takes_effect_within_a_second(small, how):
    keys = {"duration": "50000s", "flows__test__watch": False}
    sim = earmark.Simulation(small, **keys)
    begun = {}

    def interrupt():
        time.sleep(0.5)
        begun["at"] = time.monotonic()
        _thread.interrupt_main(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        earmark.simulate(small, **keys) if how == "simulate" else sim.run()
    assert time.monotonic() - begun["at"] < 1
    thread.join()
    if how == "run":
        reached = sim.now
        assert 0 < reached < sim.end
        sim.step(until=reached + 1)
        assert sim.now == reached + 1, "an interrupted run can go on"


def test_scenario_and_topology_can_be_dicts(small):
    scenario = tomllib.loads(SCENARIO)
    topology = tomllib.loads((small.parent / "small-topology.toml").read_text())
    expected = earmark.simulate(small, 5)
    assert earmark.simulate(scenario | {"topology": topology}, 5) == expected
    assert earmark.simulate(small, 5, topology=topology) == expected
    assert earmark.simulate(scenario, 5, topology=topology) == expected
    assert earmark.simulate(scenario, 5, topology=str(small.parent / "small-topology.toml")) == expected
    with pytest.raises(earmark.ScenarioError, match="<topology>: .*unknown node `c`"):
        links = [*topology["link"], {"ends": ["a", "c"], "bandwidth": "1Mbit"}]
        earmark.simulate(small, topology=topology | {"link": links})


def test_topology_can_be_a_graph(small):
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph()
    graph.add_node("r1", role="router")
    graph.add_edge("a", "r1", bandwidth=1e6, delay=0.01, reservable=220e3)
    graph.add_edge("r1", "b", bandwidth="1Mbit", delay="10ms", reservable="220kbit")
    of_graph, of_file = earmark.simulate(small, 5, topology=graph), earmark.simulate(small, 5)
    for outcome in (of_graph, of_file):
        for flow in outcome["watched"]:
            del flow["reports"]  # The ends of an edge have no order, so addresses differ.
    assert of_graph == of_file
    with pytest.raises(ValueError, match="has no bandwidth"):
        earmark.simulate(small, topology=networkx.path_graph(["a", "r1", "b"]))
    path = earmark.from_graph(networkx.path_graph(["a", "r1", "b"]), bandwidth="1Mbit", delay=0.01)
    assert earmark.simulate(small, topology=path)["wanted"] > 0
    with pytest.raises(ValueError, match="to_undirected"):
        earmark.from_graph(graph.to_directed())
