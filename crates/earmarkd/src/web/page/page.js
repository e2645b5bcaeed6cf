// The page: it logs in, and asks the daemon again while the page is visible.

import { ask, role, setToken, watch } from "./daemon.js";
import { byId } from "./elements.js";
import { addEvent } from "./events.js";
import { refreshApplications, startForms } from "./forms.js";
import { showLinks } from "./rates.js";
import { isFirstPage, refreshReservations, startReservations } from "./reservations.js";
import { showTopology } from "./topology.js";

const INTERVAL_MS = 2000;
let node = "";
let stale = true;

function say(text) {
  byId("status").textContent = text;
}

async function refresh() {
  const [links, neighbors] = await Promise.all([
    ask({ show: { what: "links" } }),
    ask({ show: { what: "neighbors", limit: 500 } }),
  ]);
  showLinks(links.rows);
  showTopology(node, links.rows, neighbors.rows);
  // The tables change with an event only.
  if (stale) {
    stale = false;
    await refreshApplications();
    if (isFirstPage()) await refreshReservations();
  }
}

async function follow() {
  for (;;) {
    if (!document.hidden) {
      try {
        await refresh();
        say("");
      } catch (error) {
        say(error.message);
      }
    }
    await new Promise((done) => setTimeout(done, INTERVAL_MS));
  }
}

async function start() {
  try {
    const granted = await role();
    const name = await ask({ watch: {} });
    node = name.node;
    byId("node").textContent = node;
    document.title = `Earmark ${node}`;
    byId("login").hidden = true;
    byId("contents").hidden = false;
    say("");
    startForms(granted);
    startReservations();
    watch((line) => {
      if (!line.event) return;
      stale = true;
      addEvent(line.event);
    }, say);
    follow();
  } catch (error) {
    byId("login").hidden = !error.isLogin;
    say(error.isLogin && byId("token").value === "" ? "The daemon asks for its token." : error.message);
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token").value.trim());
  start();
});
start();
