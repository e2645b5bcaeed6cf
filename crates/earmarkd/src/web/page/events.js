// The latest events, newest first.

import { byId, element } from "./elements.js";

const SHOWN = 100;

export function addEvent(event) {
  if (byId("hold-events").checked) return;
  const time = element("time", new Date(event.time).toLocaleTimeString(), { datetime: event.time });
  const item = element("li");
  item.append(time, ` ${event.text}`);
  const list = byId("event-rows");
  list.prepend(item);
  while (list.children.length > SHOWN) list.lastChild.remove();
}
