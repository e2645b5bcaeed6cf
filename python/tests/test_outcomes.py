"""Typed outcomes, and the tables that data frame libraries read."""

import csv
import math
import subprocess

import earmark
import pytest

TABLES = ["runs", "flows", "attempts", "rates"]


def test_outcome_has_types(small):
    outcome = earmark.play(small, 3)
    assert outcome.to_dict() == earmark.simulate(small, 3)
    assert (outcome.scenario, outcome.seed) == ("small", 3)
    flow = outcome.watched[0]
    assert (flow.flows, flow.source, flow.destination) == ("test", "a", "b")
    assert {type(attempt.outcome) for flow in outcome.watched for attempt in flow.attempts} == {
        earmark.Established,
        earmark.Refused,
    }
    [refused, *_] = [
        attempt.outcome
        for flow in outcome.watched
        for attempt in flow.attempts
        if isinstance(attempt.outcome, earmark.Refused)
    ]
    assert refused == earmark.Refused("a", 20_000), "two of 100 kbit/s have 200 of 220"
    reports = [report.outcome for flow in outcome.watched for report in flow.reports]
    assert any(isinstance(report, earmark.Established) for report in reports)


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({"kind": "whole", "offer": False}, earmark.Established("whole")),
        ({"kind": "part", "offer": True}, earmark.Offered("part")),
        ({"kind": "ended"}, earmark.Released()),
        ({"kind": "unanswered"}, earmark.TimedOut()),
        ({"kind": "pending"}, earmark.Pending()),
        (
            {"kind": "refused", "refused_by": None, "by": {"node": "10.0.0.1"}, "available_bps": 7},
            earmark.Refused("10.0.0.1", 7),
        ),
    ],
)
def test_outcomes_of_the_core_have_types(told, outcome):
    assert earmark.outcome_of(told) == outcome


def test_delays_are_those_of_the_links(small):
    outcome = earmark.play(small, 3, flows__test__count=1)
    delay = outcome.watched[0].delay
    # Two links with 10 ms, and a packet of 139 octets at 1 Mbit/s.
    assert 0.0222 < delay.p50_s <= delay.p99_s <= delay.max_s < 0.03
    assert 0 <= delay.ipdv_s < 0.002 and 0 <= delay.jitter_s < 0.002
    assert outcome.watched[0].lost == 0


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_are_those_of_the_csv_files(command, small, tmp_path, library):
    pytest.importorskip(library)
    subprocess.run(
        [command, "simulate", small, "--seed", "3", "--seeds", "2", "--csv", tmp_path], check=True
    )
    outcomes = [earmark.play(small, seed) for seed in (3, 4)]
    frames = earmark.frames(outcomes, library)
    assert list(frames) == TABLES
    for name, frame in frames.items():
        with (tmp_path / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        columns = frame.column_names if library == "pyarrow" else list(frame.columns)
        assert columns == list(rows[0])
        for column in columns:
            values = frame[column].to_pylist() if library == "pyarrow" else list(frame[column])
            assert len(values) == len(rows)
            for value, row in zip(values, rows, strict=True):
                assert same(value, row[column]), (name, column)


def same(value, text):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return text == ""
    if isinstance(value, str):
        return value == text
    if str(value) in ("True", "False"):
        return str(value).lower() == text
    return float(value) == float(text)


def test_units_are_in_names_and_metadata(small):
    pyarrow = pytest.importorskip("pyarrow")
    outcome = earmark.play(small)
    suffixes = {"s": "_s", "bit/s": "_bit_s"}
    for name in TABLES:
        table = getattr(outcome, name)
        read = pyarrow.table(table)
        assert len(table) == read.num_rows
        assert table.units == earmark.units(name)
        for field in read.schema:
            unit = earmark.units(name)[field.name]
            assert (field.metadata or {}).get(b"unit", b"").decode() == (unit or "")
            assert field.name.endswith(suffixes.get(unit, "")), field
    assert earmark.units("rates")["rate_bit_s"] == "bit/s"
    with pytest.raises(KeyError, match="no table `delays`"):
        earmark.units("delays")
    with pytest.raises(ValueError, match="unknown library"):
        outcome.frames("numpy")
