// The page: it asks for all routers, and keeps one row for each, in the order of the answer.

import { byId } from "./elements.js";
import { createRow, refreshLinks, showRow } from "./router.js";

const INTERVAL_MS = 5000;
const rows = new Map();

export async function get(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

// Text is changed only if it is another one, so that screen readers do not repeat it.
function say(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

function isWanted(router) {
  const text = byId("filter-text").value.trim().toLowerCase();
  const state = byId("filter-state").value;
  const isTrouble = router.state === "unreachable" || router.state === "trouble";
  if (state === "trouble" && !isTrouble) return false;
  if (state === "good" && router.state !== "good") return false;
  return [router.name, router.version, router.reason, ...router.troubles].some((part) => part?.toLowerCase().includes(text));
}

function applyFilter() {
  for (const row of rows.values()) row.place.hidden = !isWanted(row.router);
}

function show(fleet) {
  const list = byId("routers");
  const focused = document.activeElement;
  let next = list.firstElementChild;
  for (const router of fleet.routers) {
    const row = rows.get(router.id) ?? createRow(router, get);
    rows.set(router.id, row);
    showRow(row, router);
    if (row.place === next) next = next.nextElementSibling;
    else list.insertBefore(row.place, next);
  }
  // A row that moves loses the focus.
  if (focused && focused !== document.activeElement && list.contains(focused)) focused.focus();
  applyFilter();
  const count = (state) => fleet.routers.filter((router) => router.state === state).length;
  say("summary", `${fleet.routers.length} routers, ${count("unreachable")} unreachable, ${count("trouble")} with trouble`);
}

async function follow() {
  for (;;) {
    if (!document.hidden) {
      try {
        show(await get("api/fleet"));
        await Promise.all([...rows.values()].map(refreshLinks));
        say("status", "");
      } catch (error) {
        say("status", `The rows are not fresh: ${error.message}`);
      }
    }
    await new Promise((done) => setTimeout(done, INTERVAL_MS));
  }
}

byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", applyFilter);
follow();
