// A link of a router, with its reserved and used rate over time as lines.

import { element, picture, rate } from "./elements.js";

const WIDTH = 300;
const HEIGHT = 100;

export function createLink(name) {
  const place = element("article");
  const card = { place, name, values: element("dl"), chart: element("div", "", { class: "chart" }) };
  place.append(element("h3", name), card.values, card.chart);
  return card;
}

// A line through the samples that have a value; it is interrupted where one has none.
function line(samples, index, x, y) {
  let path = "";
  let isDrawn = false;
  for (const sample of samples) {
    const value = sample[index];
    if (value !== null) path += `${isDrawn ? "L" : "M"}${x(sample[0]).toFixed(1)} ${y(value).toFixed(1)}`;
    isDrawn = value !== null;
  }
  return path;
}

function chart(name, samples, reservable) {
  const [first, last] = [samples[0][0], samples.at(-1)[0]];
  const highest = Math.max(1000, reservable ?? 0, ...samples.flatMap(([, reserved, used]) => [reserved ?? 0, used ?? 0]));
  const x = (time) => (last > first ? ((time - first) / (last - first)) * WIDTH : 0);
  const y = (value) => HEIGHT - 2 - (value / highest) * (HEIGHT - 4);
  const label = `Reserved and used rate of ${name} over time`;
  const svg = picture("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label });
  svg.append(picture("line", { x1: 0, y1: HEIGHT, x2: WIDTH, y2: HEIGHT }));
  svg.append(picture("path", { class: "reserved", d: line(samples, 1, x, y) }));
  svg.append(picture("path", { class: "used", d: line(samples, 2, x, y) }));
  return [svg, element("p", `Over ${Math.round(last - first)} s; the top is ${rate(highest)}`)];
}

export function showLink(card, link, pairs) {
  const state = link.up === null ? "unknown" : link.up ? "up" : "down";
  pairs(card.values, [
    ["State", state],
    ["Reserved", `${rate(link.reserved_bps)} of ${rate(link.reservable_bps)}`, "reserved"],
    ["Used", rate(link.used_bps), "used"],
    ["Reservations", String(link.reservations ?? "unknown")],
    ["Bandwidth", rate(link.bandwidth_bps)],
  ]);
  const samples = link.samples ?? [];
  card.chart.replaceChildren(...(samples.length > 1 ? chart(card.name, samples, link.reservable_bps) : [element("p", "The lines begin with the second scrape.")]));
}
