#!/usr/bin/env python3
"""Model of the interruptions by a link that fails and returns, with YESSIR, apart from the simulator: reports alone, without a network.

    failure_yessir.py SCENARIO.toml SEEDS

Of the flows that cross the link, each is interrupted when it fails, until the next report of its sender takes the way around. When the link
returns, routers on the old path still have what they reserved before the failure (for three reports of the longest interval); a flow
that began meanwhile is interrupted again until its next report. Prints the metrics of each seed as JSON.
"""

import json
import random
import sys
import tomllib

INTERVAL = 30.0
LIFETIME = 3 * 1.3 * INTERVAL


def next_report(dice, start, after):
    """Returns the times of the last report up to a time, and of the first one after it."""
    last, at = start, start
    while at <= after:
        last, at = at, at + INTERVAL * dice.uniform(0.7, 1.3)
    return last, at


def run(scenario, seed):
    dice = random.Random(f"failure {seed}")
    flows, [fault] = scenario["flows"][0], scenario["faults"]
    mean = float(flows["lifetime"].split()[1].removesuffix("s"))
    seconds = {key: float(scenario[key].removesuffix("s")) for key in ("duration", "discard")}
    fails, returns = (float(fault[key].removesuffix("s")) for key in ("from", "until"))
    interrupted, recovered = 0, []
    # Many flows; which of them cross the link makes no difference to the shares and times.
    starts, at = [0.0] * flows["count"], 0.0
    while (at := at + dice.expovariate(flows["count"] / mean)) < seconds["duration"]:
        starts.append(at)
    for start in starts:
        ends = min(start + dice.expovariate(1 / mean), seconds["duration"])
        moments = []
        if start <= fails < ends:
            last, report = next_report(dice, start, fails)
            moments.append((fails, report))
            if last + LIFETIME <= returns < ends:
                moments.append((returns, next_report(dice, report, returns)[1]))
        elif fails < start <= returns < ends:
            moments.append((returns, next_report(dice, start, returns)[1]))
        for moment, report in moments:
            interrupted += 1
            if report < ends:
                recovered.append(report - moment)
    recovered.sort()
    last = len(recovered) - 1
    lower, median, upper = (recovered[last * quarter // 4] for quarter in (1, 2, 3))
    share = len(recovered) / interrupted
    return {"recovered": share, "lower": lower, "median": median, "upper": upper}


def main():
    with open(sys.argv[1], "rb") as file:
        scenario = tomllib.load(file)
    runs = [run(scenario, seed) for seed in range(int(sys.argv[2]))]
    print(json.dumps({metric: [one[metric] for one in runs] for metric in runs[0]}))


main()
