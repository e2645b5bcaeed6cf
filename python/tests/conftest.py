"""Common fixtures: the repository, and a scenario that runs in no time."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

TOPOLOGY = """
node = [{ name = "r1", role = "router" }, { name = "a" }, { name = "b" }]
link = [
    { ends = ["a", "r1"], bandwidth = "1Mbit", delay = "10ms", reservable = "220kbit" },
    { ends = ["r1", "b"], bandwidth = "1Mbit", delay = "10ms", reservable = "220kbit" },
]
"""

SCENARIO = """
name = "small"
topology = "small-topology.toml"
protocol = "yessir"
duration = "40s"
refresh = "5s"

[[flows]]
name = "best effort"
between = [["a", "b"]]
rate = "100kbit"
bursts = { on = "1s", off = "500ms" }

[[flows]]
name = "test"
between = [["a", "b"]]
count = 3
lifetime = "exponential 10s"
rate = "100kbit"
reserves = "1s"
watch = true
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario with three flows, of which two fit."""
    (tmp_path / "small-topology.toml").write_text(TOPOLOGY)
    scenario = tmp_path / "small.toml"
    scenario.write_text(SCENARIO)
    return scenario


@pytest.fixture(scope="session")
def command() -> Path:
    """Path of the program `earmark-lab`."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    programs = [target / profile / "earmark-lab" for profile in ("release", "debug")]
    built = [program for program in programs if program.exists()]
    if not built:
        pytest.skip("earmark-lab is not there: cargo build --release --bin earmark-lab")
    return max(built, key=lambda program: program.stat().st_mtime)
