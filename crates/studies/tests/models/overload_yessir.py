#!/usr/bin/env python3
"""Model of the overloaded row of routers with YESSIR, apart from the simulator: admission alone, without messages.

    overload_yessir.py SCENARIO.toml SEEDS

A flow asks every link of its path when it starts and with every later report, after 0.7 to 1.3 intervals; each link grants by itself
what fits, and the flow keeps it to its end. Propagation takes no time. Prints the metrics of each seed as JSON.
"""

import heapq
import json
import random
import sys
import tomllib

ROUTERS, HOSTS = 5, 4
RESERVABLE = 0.75 * 10e9
END, REPORT = range(2)


def path(dice):
    """Returns the links between routers on the path of two hosts, each as a router and a direction."""
    while True:
        one, other = (dice.randrange(ROUTERS * HOSTS) for _ in range(2))
        if one != other:
            break
    a, b = one // HOSTS, other // HOSTS
    return [(router, 1) for router in range(a, b)] + [(router, -1) for router in range(a, b, -1)]


def run(scenario, seed):
    dice = random.Random(f"overload {seed}")
    flows = scenario["flows"][0]
    rate = float(flows["rate"].removesuffix("bit"))
    mean = float(flows["lifetime"].split()[1].removesuffix("s"))
    duration, discard = (float(scenario[key].removesuffix("s")) for key in ("duration", "discard"))
    interval = 30.0
    # The steady state: a number of Poisson's distribution, with remaining lifetimes.
    starts, at = [], dice.expovariate(1.0)
    while at < flows["count"]:
        starts.append(0.0)
        at += dice.expovariate(1.0)
    at = dice.expovariate(flows["count"] / mean)
    while at < duration:
        starts.append(at)
        at += dice.expovariate(flows["count"] / mean)
    room, events, state = {}, [], {}
    for number, start in enumerate(starts):
        # [links, reserved links, start, time of completion, time of the last change, whole time, link times whole and partial]
        state[number] = [path(dice), set(), start, None, start, 0.0, 0.0, 0.0]
        heapq.heappush(events, (start, REPORT, number))
        heapq.heappush(events, (min(start + dice.expovariate(1 / mean), duration), END, number))
    totals = {"wanted": 0, "completed": 0, "time": 0.0, "whole": 0.0, "useful": 0.0, "vain": 0.0}

    def account(flow, now):
        since = max(flow[4], discard)
        flow[4] = now
        if now > since:
            is_whole = len(flow[1]) == len(flow[0])
            flow[5] += (now - since) * is_whole
            # Links of hosts always have room.
            held = (now - since) * (len(flow[1]) + 1)
            flow[6 if is_whole else 7] += held

    while events:
        now, what, number = heapq.heappop(events)
        flow = state.get(number)
        if flow is None:
            continue
        account(flow, now)
        if what == REPORT:
            for link in flow[0]:
                if link not in flow[1] and room.get(link, RESERVABLE) >= rate:
                    room[link] = room.get(link, RESERVABLE) - rate
                    flow[1].add(link)
            if flow[3] is None and len(flow[1]) == len(flow[0]):
                flow[3] = now
            heapq.heappush(events, (now + interval * dice.uniform(0.7, 1.3), REPORT, number))
            continue
        for link in flow[1]:
            room[link] += rate
        del state[number]
        if flow[2] >= discard:
            totals["wanted"] += 1
            totals["completed"] += flow[3] is not None
        totals["time"] += max(now - max(flow[2], discard), 0.0)
        totals["whole"] += flow[5]
        totals["useful"] += flow[6]
        totals["vain"] += flow[7]
    return {
        "completed": totals["completed"] / totals["wanted"],
        "served": totals["whole"] / totals["time"],
        "fragmented": totals["vain"] / (totals["useful"] + totals["vain"]),
    }


def main():
    with open(sys.argv[1], "rb") as file:
        scenario = tomllib.load(file)
    runs = [run(scenario, seed) for seed in range(int(sys.argv[2]))]
    print(json.dumps({metric: [one[metric] for one in runs] for metric in runs[0]}))


main()
