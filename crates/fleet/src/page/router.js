// The row of a router, and its links while they are open.

import { element, rate } from "./elements.js";
import { createLink, showLink } from "./link.js";

const number = (value) => (value === null || value === undefined ? "unknown" : String(Number(value.toPrecision(3))));

const seconds = (value) => {
  if (value === null) return "never";
  return value < 120 ? `${Math.round(value)} s` : `${Math.round(value / 60)} min`;
};

export function pairs(place, values) {
  place.replaceChildren(
    ...values.map(([name, value, style]) => {
      const pair = element("div", "", style ? { class: style } : {});
      pair.append(element("dt", name), element("dd", value));
      return pair;
    }),
  );
}

export function createRow(router, get) {
  const place = element("li");
  const title = element("h2");
  const links = element("div", "", { class: "links cards", id: `links-${router.id}`, hidden: "" });
  const button = element("button", router.name, { type: "button", "aria-expanded": "false", "aria-controls": links.id });
  title.append(button);
  const row = { place, button, links, router, get, state: element("p", "", { class: "state" }), values: element("dl"), cards: new Map() };
  place.append(title, row.state, row.values, links);
  button.addEventListener("click", async () => {
    const open = links.hidden;
    links.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    await refreshLinks(row).catch((error) => links.replaceChildren(element("p", error.message, { class: "error" })));
  });
  return row;
}

function stateText(router) {
  const since = `since ${new Date(router.since).toLocaleString()}`;
  if (router.state === "pending") return "not scraped yet";
  if (router.state === "unreachable") return `unreachable ${since}: ${router.reason}`;
  return router.troubles.length > 0 ? router.troubles.join("; ") : `reachable ${since}`;
}

export function showRow(row, router) {
  row.router = router;
  row.place.className = `router ${router.state}`;
  row.state.textContent = stateText(router);
  if (router.page) {
    const link = element("a", "own page", { href: router.page, rel: "noreferrer", "aria-label": `Own page of ${router.name}` });
    row.state.append(" (", link, ")");
  }
  if (router.age_s === null) {
    row.values.replaceChildren();
    return;
  }
  const sessions = Object.entries(router.sessions).filter(([, count]) => count > 0);
  pairs(row.values, [
    ["Reserved", `${rate(router.reserved_bps)} of ${rate(router.reservable_bps)}`],
    ["Sessions", sessions.map(([part, count]) => `${part} ${number(count)}`).join(", ") || "none"],
    ["Refusals per minute", number(router.refusals_per_minute)],
    ["Drops per minute", number(router.drops_per_minute)],
    ["Event loop, p99", router.slow_turns_s === null ? "unknown" : `${number(router.slow_turns_s * 1000)} ms`],
    ["Last scrape", `${seconds(router.age_s)} ago`],
    ["Version", router.version],
  ]);
}

// Shows the links of an open row with their history.
export async function refreshLinks(row) {
  if (row.links.hidden) return;
  const router = await row.get(`api/router/${row.router.id}`);
  const names = new Set(router.links.map((link) => link.name));
  for (const name of row.cards.keys()) {
    if (!names.has(name)) row.cards.delete(name);
  }
  for (const link of router.links) {
    const card = row.cards.get(link.name) ?? createLink(link.name);
    row.cards.set(link.name, card);
    showLink(card, link, pairs);
  }
  const shown = [...row.cards.values()].map((card) => card.place);
  if (shown.length === 0) shown.push(element("p", "No links are known."));
  if (router.links_left_out > 0) shown.push(element("p", `${router.links_left_out} links are left out.`));
  const isShown = shown.length === row.links.childElementCount && shown.every((place, index) => place === row.links.children[index]);
  if (!isShown) row.links.replaceChildren(...shown);
}
