// Requests of the control protocol, and the stream of events.

const KEY = "earmark-token";
const PAUSE_MS = 5000;

export const setToken = (token) => sessionStorage.setItem(KEY, token);

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

// A refusal of the daemon; `isLogin` if the token is missing or wrong.
export class Refusal extends Error {
  constructor(message, isLogin = false) {
    super(message);
    this.isLogin = isLogin;
  }
}

async function checked(response) {
  if (response.ok) return response;
  const text = await response.text();
  let problem;
  try {
    problem = JSON.parse(text).error;
  } catch {
    // Not an answer of the control protocol.
  }
  const help = problem?.hint ? `; help: ${problem.hint}` : "";
  throw new Refusal(problem ? problem.message + help : text.trim(), response.status === 401);
}

export async function role() {
  return (await (await checked(await fetch("role", { headers: headers() }))).json()).role;
}

// Sends one request, such as {show: {what: "links"}}, and returns its answer.
export async function ask(request) {
  const response = await fetch("api", {
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  return (await (await checked(response)).json()).ok;
}

// Calls `take` for each event, and connects again when the stream has ended.
export async function watch(take, state) {
  for (;;) {
    try {
      const response = await checked(await fetch("events", { headers: headers() }));
      state("");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const blocks = (text + part.value).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) {
          if (block.startsWith("data: ")) take(JSON.parse(block.slice(6)));
        }
      }
      state("The stream of events has ended; connecting again.");
    } catch (error) {
      state(`No events: ${error.message}`);
    }
    await new Promise((done) => setTimeout(done, PAUSE_MS));
  }
}
