// Elements of the page. All text goes through textContent: a name that is HTML stays text.

export const byId = (id) => document.getElementById(id);

export function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export function picture(tag, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A row of a table; a cell is a text or an element.
export function row(cells) {
  const made = element("tr");
  for (const cell of cells) {
    const data = element("td");
    data.append(cell ?? "");
    made.append(data);
  }
  return made;
}

export function rate(bps) {
  if (bps === undefined || bps === null) return "unknown";
  for (const [size, unit] of [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]]) {
    if (bps >= size) return `${Number((bps / size).toPrecision(4))} ${unit}`;
  }
  return `${Number(bps.toPrecision(4))} bit/s`;
}

export const withPort = (address, port) => {
  if (!port) return address;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
};

// The values of a form that are not empty.
export const values = (form) =>
  Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
