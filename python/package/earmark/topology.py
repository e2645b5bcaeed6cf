"""Topologies from Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RATES = ("bandwidth", "reservable")
_LINK_KEYS = ("bandwidth", "delay", "reservable", "queue_packets", "prefix")


def from_graph(graph: Any, **defaults: Any) -> dict[str, Any]:
    """Returns the topology of an undirected networkx graph, as a dict in the form of a topology file.

    Nodes may have the attribute ``role`` ("host" or "router"); edges ``bandwidth``, ``delay``, ``reservable``,
    ``queue_packets`` and ``prefix``. A rate that is a number is in bit/s, a delay that is one in seconds. ``defaults`` are the
    values of edges without an attribute.
    """
    if graph.is_directed():
        raise ValueError("links have two directions: pass graph.to_undirected()")
    unknown = set(defaults) - set(_LINK_KEYS)
    if unknown:
        raise TypeError(f"no attribute of links: {', '.join(sorted(unknown))}")
    nodes = [
        {"name": str(node)} | ({"role": data["role"]} if "role" in data else {})
        for node, data in graph.nodes(data=True)
    ]
    links = []
    for one, other, data in graph.edges(data=True):
        values = {**defaults, **{key: data[key] for key in _LINK_KEYS if key in data}}
        if "bandwidth" not in values:
            raise ValueError(f"the edge from {one} to {other} has no bandwidth; add it, or pass a default")
        link = {key: _text(key, value) for key, value in values.items()}
        links.append({"ends": [str(one), str(other)], **link})
    return {"node": nodes, "link": links}


def _text(key: str, value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if key in _RATES:
            return f"{round(value)}bit"
        if key == "delay":
            return f"{value * 1e6:.3f}us"
    return value


def is_file_form(topology: object) -> bool:
    """Whether a dict has the form of a topology file, rather than that of a scenario's table ``topology``."""
    return isinstance(topology, Mapping) and ("node" in topology or "link" in topology)
