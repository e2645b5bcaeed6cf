// The forms that change something: reserve and release.

import { ask } from "./daemon.js";
import { byId, element, row, values, withPort } from "./elements.js";

// Protocols that reserve, and how a request of each differs from the others.
const PROTOCOLS = [
  { name: "rsvp" },
  { name: "boomerang", hasReverse: true, hasNoIdentity: true },
  { name: "yessir", hasNoIdentity: true, needsSource: true },
  { name: "nsis", hasNoIdentity: true },
];
let isOperator = false;

const chosen = () => PROTOCOLS.find((one) => one.name === byId("reserve-protocol").value);

function follow() {
  const { hasReverse, hasNoIdentity, needsSource } = chosen();
  byId("reserve-reverse-row").hidden = !hasReverse;
  byId("reserve-from").required = Boolean(needsSource);
  for (const id of ["reserve-user", "reserve-application"]) byId(id).closest("p").hidden = Boolean(hasNoIdentity);
}

function request() {
  const { protocol, to, from, rate, reverse, user, application } = values(byId("reserve"));
  const { hasReverse, hasNoIdentity } = chosen();
  const bps = (megabits) => Math.round(Number(megabits) * 1e6);
  const reserve = { protocol, to };
  if (from) reserve.from = from;
  if (hasReverse) reserve.options = { rates: [{ forward: bps(rate), reverse: bps(reverse ?? 0) }] };
  else reserve.rate_bps = bps(rate);
  const identity = { ...(user && { user }), ...(application && { application }) };
  if (!hasNoIdentity && Object.keys(identity).length > 0) reserve.identity = identity;
  return { reserve };
}

async function send(message, success) {
  const said = byId("request-result");
  try {
    said.textContent = success(await ask(message));
    said.classList.remove("error");
  } catch (error) {
    said.textContent = error.message;
    said.classList.add("error");
  }
  await refreshApplications();
}

function release(application) {
  const button = element("button", "Release", { type: "button", "aria-label": `Release application ${application}` });
  button.addEventListener("click", () => {
    button.disabled = true;
    send({ release: { application } }, () => `Application ${application} is released.`);
  });
  return button;
}

export async function refreshApplications() {
  const { rows } = await ask({ show: { what: "applications", limit: 200 } });
  byId("application-rows").replaceChildren(
    ...rows.map((found) =>
      row([
        String(found.application),
        found.protocol,
        found.role,
        withPort(found.destination, found.destination_port),
        found.outcome.kind,
        found.last ?? "",
        isOperator ? release(found.application) : "none",
      ]),
    ),
  );
}

export function startForms(role) {
  isOperator = role === "operator";
  for (const select of [byId("reserve-protocol"), byId("search-protocol")]) {
    select.append(...PROTOCOLS.map(({ name }) => element("option", name)));
  }
  byId("reserve").hidden = !isOperator;
  byId("reserve-protocol").addEventListener("change", follow);
  byId("reserve").addEventListener("submit", (event) => {
    event.preventDefault();
    send(request(), ({ application }) => `Requested as application ${application}; its outcome is in the table.`);
  });
  follow();
}
