// The neighbors, as a picture and as a table: this node, its links, and who is heard on them.

import { byId, element, picture, row } from "./elements.js";

const ROW = 44;
const NAMES = 14;
const WIDTH = 340;
const SHOWN = 40;

// Text of a bounded length, for the picture.
const short = (text) => (text.length > NAMES ? `${text.slice(0, NAMES - 1)}…` : text);

function box(x, y, width, text, kind) {
  const group = picture("g", { class: kind });
  group.append(
    picture("rect", { x, y: y - 14, width, height: 28, rx: 5 }),
    picture("text", { x: x + width / 2, y: y + 4, "text-anchor": "middle" }, short(text)),
    picture("title", {}, text),
  );
  return group;
}

const line = (x1, y1, x2, y2) => picture("line", { x1, y1, x2, y2 });

export function showTopology(node, links, neighbors) {
  const places = [];
  for (const link of links) {
    const heard = neighbors.filter((row) => row.interface === link.interface);
    const addresses = [...new Set(heard.map((row) => row.address))];
    places.push({ link, addresses: addresses.length > 0 ? addresses : [null] });
  }
  const rows = places.reduce((sum, place) => sum + place.addresses.length, 0);
  const height = Math.max(Math.min(rows, SHOWN), 1) * ROW;
  const view = picture("svg", {
    viewBox: `0 0 ${WIDTH} ${height}`,
    role: "img",
    "aria-label": `${node} has ${links.length} links and ${neighbors.length} neighbors, which the table lists`,
  });
  const middle = height / 2;
  let y = ROW / 2;
  for (const { link, addresses } of places) {
    if (y > height) break;
    const center = y + ((Math.min(addresses.length, SHOWN) - 1) * ROW) / 2;
    view.append(line(90, middle, 130, center));
    for (const address of addresses.filter((found) => found !== null)) {
      if (y > height) break;
      view.append(line(210, center, 230, y), box(230, y, 110, address, "neighbor"));
      y += ROW;
    }
    if (addresses[0] === null) y += ROW;
    view.append(box(130, center, 80, link.interface, link.up ? "link" : "link down"));
  }
  view.append(box(0, middle, 90, node, "node"));
  byId("topology-picture").replaceChildren(view);
  const cells = neighbors.map((neighbor) =>
    row([neighbor.address, neighbor.protocol, neighbor.interface, neighbor.hello ?? "no Hello", neighbor.reservations]),
  );
  const none = element("tr");
  none.append(element("td", "No neighbors so far.", { colspan: 5 }));
  byId("neighbor-rows").replaceChildren(...(cells.length > 0 ? cells : [none]));
}
