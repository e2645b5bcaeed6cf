// The reservations: a search by the filters of the daemon, page by page.

import { ask } from "./daemon.js";
import { byId, rate, row, values, withPort } from "./elements.js";

const PAGE = 50;
// Pages of the daemon that one press of a button reads: a page may have no rows.
const MOST_PAGES = 200;
let next = null;
let search = 0;

function cells(found) {
  const senders = found.senders.map((sender) => withPort(sender.address, sender.port)).join(", ");
  return row([
    withPort(found.destination, found.destination_port),
    senders || "all",
    found.protocol,
    found.interface ?? "",
    rate(found.rate_bps),
    found.user?.name ?? "",
    found.enforcement ? found.enforcement.state : "no_queue",
  ]);
}

async function read(rows) {
  const mine = ++search;
  const said = byId("search-result");
  const filter = values(byId("search"));
  let count = 0;
  try {
    for (let pages = 0; next !== null && count < PAGE && pages < MOST_PAGES; pages += 1) {
      const answer = await ask({ show: { what: "reservations", after: next, limit: PAGE - count, filter } });
      if (mine !== search) return;
      next = answer.next ?? null;
      count += answer.rows.length;
      rows.push(...answer.rows.map(cells));
    }
    byId("reservation-rows").replaceChildren(...rows);
    const noun = rows.length === 1 ? "reservation" : "reservations";
    said.textContent = `${rows.length} ${noun}${next === null ? "" : ", and there may be more"}.`;
    byId("more").hidden = next === null;
  } catch (error) {
    said.textContent = error.message;
  }
}

export function refreshReservations() {
  next = "start";
  return read([]);
}

export function startReservations() {
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    refreshReservations();
  });
  byId("more").addEventListener("click", () => read([...byId("reservation-rows").children]));
}

// Whether the table is as after a search: further pages are not read again.
export const isFirstPage = () => byId("reservation-rows").children.length <= PAGE;
