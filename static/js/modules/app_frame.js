// Talks to the frame of an app.
const MOST_CHARACTERS = 65536, MOST_MESSAGES = 100, WINDOW = 5e3, MOST_TEXT = 4e3, BUSY_TRIES = 60;
const METHODS = { __proto__: null }, apps = new Set();

const tell = (app, message) => app.frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");

const note = ({ box }, name) => box.querySelector("[data-app-note]").textContent = box.dataset[name];

const get = async (...all) => (await fetch(...all)).json();

METHODS.ping = () => ({});

METHODS["ui/initialize"] = ({ box }) => {
  const host = JSON.parse(box.dataset.host);
  host.hostContext.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  return host;
};

METHODS["ui/request-display-mode"] = () => ({ mode: "inline" });

METHODS["ui/notifications/initialized"] = async (app) => {
  for (const message of (await get(app.address + "told")).messages) tell(app, message);
};

METHODS["ui/notifications/size-changed"] = ({ frame }, { height }) => {
  frame.style.height = `${height}px`;
};

// Only a person opens it.
METHODS["ui/open-link"] = (app, { url }) => {
  const link = URL.parse(url);
  if (!/^https?:$/.test(link?.protocol) || link.href.length > 2e3) return { isError: true };
  const place = app.box.querySelector("[data-app-link]"), anchor = place.querySelector("a");
  anchor.href = anchor.textContent = link.href;
  place.hidden = false;
  return {};
};

// Only into an empty box.
METHODS["ui/message"] = (app, { content }) => {
  const box = byId("message");
  const words = [content].flat().map((block) => block?.type === "text" ? block.text : "").join("\n");
  const text = words.replace(/[^\P{C}\n\t]/gu, "").trim();
  if (!box || box.value || !text || text[MOST_TEXT]) return { isError: true };
  box.value = text;
  fire(box, "input");
  note(app, "filled");
  return {};
};

METHODS["tools/call"] = async ({ address, frame }, { name, arguments: values }) => {
  let options = { method: "POST", body: JSON.stringify({ name, arguments: values }), headers: { "X-CSRFToken": find("[name=csrfmiddlewaretoken]").value } };
  let place = address + "call", left = BUSY_TRIES;
  while (frame.isConnected) {
    const { at, result, error: problem, busy } = await get(place, options);
    if (result) return result;
    if (problem && !(busy && left--)) throw { problem };
    if (at) [place, options] = [at];
    else await new Promise((done) => setTimeout(done, 1e3));
  }
};

const isMessage = (data) => {
  try {
    const { jsonrpc, method, params = {} } = data;
    return jsonrpc === "2.0" && typeof method === "string" && Object(params) === params && JSON.stringify(data).length <= MOST_CHARACTERS;
  } catch {}
};

const hear = async ({ source, origin, data, timeStamp }) => {
  const app = [...apps].find(({ frame }) => frame.contentWindow === source);
  if (!source || !app || origin !== "null") return;
  if (timeStamp - app.since > WINDOW) [app.since, app.count] = [timeStamp, 0];
  if (++app.count > MOST_MESSAGES) {
    apps.delete(app);
    app.frame.remove();
    return note(app, "stopped");
  }
  if (!isMessage(data)) return;
  const { id, method, params = {} } = data, act = METHODS[method];
  let answer;
  try {
    answer = act ? { result: await act(app, params) } : { error: { code: -32601, message: "Not supported." } };
  } catch ({ problem = app.box.dataset.failed }) {
    answer = { error: { code: -32000, message: problem } };
  }
  if (id != null) tell(app, { id, ...answer });
};

const show = (root) => {
  for (const frame of root.querySelectorAll("[data-app] iframe[hidden]")) {
    const box = frame.closest("[data-app]");
    frame.hidden = false;
    apps.add({ box, frame, address: box.dataset.app, since: 0, count: 0 });
    frame.src = box.dataset.app;
  }
};

window.onmessage = hear;
on("click", ({ target }) => target.closest("[data-app-link] :is(a, button)")?.parentElement.setAttribute("hidden", ""));
on("painted", ({ target }) => show(target.parentElement));
show(document);
