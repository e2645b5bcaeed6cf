#!/usr/bin/env python3
"""Model of the set-up time of RSVP on a row of routers that loses messages, apart from the simulator.

    loss_rsvp.py SCENARIO.toml SEEDS

A Path goes from the source to the destination, and a Resv back to the source, whose link is the last one that is reserved. A message that a
link between routers loses is sent again until it is acknowledged, after 0.5 s, 1 s more, 2 s more and so on (RFC 2961 sections 5.3 and 6).
Daemons take no time. Prints the median, the ninth decile, and the share of set-ups with a lost message of each seed as JSON.
"""

import json
import random
import sys
import tomllib

ROUTERS, HOSTS = 5, 4
ACCESS, INNER = 0.001, 0.005
FIRST_WAIT = 0.5


def hop(dice, loss):
    """Returns the time of a message over a link between routers."""
    took, wait = INNER, FIRST_WAIT
    while dice.random() < loss:
        took, wait = took + wait, 2 * wait
    return took


def set_up(dice, loss):
    while True:
        one, other = (dice.randrange(ROUTERS * HOSTS) for _ in range(2))
        if one != other:
            break
    inner = abs(one // HOSTS - other // HOSTS)
    # Out and back: two links of hosts, and those between routers.
    return 4 * ACCESS + sum(hop(dice, loss) for _ in range(2 * inner))


def run(scenario, seed):
    dice = random.Random(f"loss {seed}")
    flows, [loss] = scenario["flows"][0], {fault["loss"] for fault in scenario["faults"]}
    mean = float(flows["lifetime"].split()[1].removesuffix("s"))
    duration, discard = (float(scenario[key].removesuffix("s")) for key in ("duration", "discard"))
    times, at = [], discard + dice.expovariate(flows["count"] / mean)
    while at < duration:
        took = set_up(dice, loss)
        # A flow that ends before is not completed.
        if took < min(dice.expovariate(1 / mean), duration - at):
            times.append(took)
        at += dice.expovariate(flows["count"] / mean)
    times.sort()
    last = len(times) - 1
    late = sum(time > FIRST_WAIT for time in times) / len(times)
    return {"median": times[last // 2], "decile": times[last * 9 // 10], "late": late}


def main():
    with open(sys.argv[1], "rb") as file:
        scenario = tomllib.load(file)
    runs = [run(scenario, seed) for seed in range(int(sys.argv[2]))]
    print(json.dumps({metric: [one[metric] for one in runs] for metric in runs[0]}))


main()
