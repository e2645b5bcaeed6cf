// The links, each with its reserved and used rate over time.

import uPlot from "./uPlot.js";
import { byId, element, rate } from "./elements.js";

const SAMPLES = 900;
const HEIGHT = 160;
const links = new Map();

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function chart(place, label) {
  const axis = () => ({ stroke: color("--text"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } });
  const options = {
    width: Math.max(place.clientWidth, 200),
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    axes: [axis(), { ...axis(), size: 84, values: (_, all) => all.map((bps) => rate(bps)) }],
    scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1000)] } },
    series: [
      {},
      { label: "reserved", stroke: color("--reserved"), width: 2 },
      { label: "used", stroke: color("--used"), width: 2, dash: [6, 3] },
    ],
  };
  const plot = new uPlot(options, [[], [], []], place);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", label);
  new ResizeObserver(() => plot.setSize({ width: Math.max(place.clientWidth, 200), height: HEIGHT })).observe(place);
  return plot;
}

function create(name) {
  const card = element("article");
  const numbers = element("dl");
  const place = element("div", "", { class: "chart" });
  card.append(element("h3", name), numbers, place);
  byId("link-rows").append(card);
  const plot = chart(place, `Reserved and used rate of ${name} over time`);
  return { card, numbers, plot, data: [[], [], []], octets: null, at: 0 };
}

// Rate since the sample before; the counters begin again when the daemon starts.
function used(link, octets, now) {
  const { octets: before, at } = link;
  link.octets = octets ?? null;
  link.at = now;
  if (octets === undefined || before === null || octets < before || now <= at) return null;
  return ((octets - before) * 8) / (now - at);
}

export function showLinks(rows) {
  const now = Date.now() / 1000;
  const names = new Set(rows.map((row) => row.interface));
  for (const [name, link] of links) {
    if (names.has(name)) continue;
    link.plot.destroy();
    link.card.remove();
    links.delete(name);
  }
  for (const row of rows) {
    const link = links.get(row.interface) ?? create(row.interface);
    links.set(row.interface, link);
    const sent = used(link, row.sent_octets, now);
    const numbers = [
      ["State", row.state],
      ["Reserved", `${rate(row.held_bps)} of ${rate(row.reservable_bps)}`],
      ["Used", rate(sent)],
      ["Reservations", row.claims],
      ["Bandwidth", rate(row.bandwidth_bps)],
    ];
    link.numbers.replaceChildren(
      ...numbers.map(([name, value]) => {
        const pair = element("div", "", { class: name.toLowerCase() });
        pair.append(element("dt", name), element("dd", value));
        return pair;
      }),
    );
    [now, row.held_bps, sent].forEach((value, index) => {
      link.data[index].push(value);
      if (link.data[index].length > SAMPLES) link.data[index].shift();
    });
    link.plot.setData(link.data);
  }
}
