// Talks to the sandboxed frame of an app. Its messages are untrusted: shape, size and number are
// checked here, and the server decides about every tool call.
const MOST_CHARACTERS = 65536, MOST_MESSAGES = 100, WINDOW = 5e3, MOST_TEXT = 4e3, HIGHEST = 800;
const BUSY_TRIES = 60, TRIES = 600, PAUSE = 1e3;
const METHODS = { __proto__: null }, apps = new Set();

class Wrong extends Error {}

const tell = (app, message) => app.frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");

const note = (app, words) => app.box.querySelector("[data-app-note]").textContent = words;

// A busy chat refuses with 409.
const get = async (address, options) => {
  const answer = await fetch(address, { redirect: "error", ...options });
  const json = await answer.json();
  if (!answer.ok && answer.status !== 409) throw new Wrong(json.error);
  return json;
};

METHODS.ping = () => ({});

METHODS["ui/initialize"] = () => ({
  protocolVersion: "2026-01-26",
  hostInfo: { name: "countersign", version: "1" },
  hostCapabilities: { openLinks: {}, serverTools: {}, message: { text: {} } },
  hostContext: {
    theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
    displayMode: "inline",
    availableDisplayModes: ["inline"],
    containerDimensions: { maxHeight: HIGHEST },
    locale: navigator.language,
    platform: "web",
  },
});

METHODS["ui/request-display-mode"] = () => ({ mode: "inline" });

METHODS["ui/notifications/initialized"] = async (app) => {
  const told = await get(app.address + "told");
  tell(app, { method: "ui/notifications/tool-input", params: { arguments: told.arguments } });
  tell(app, { method: "ui/notifications/tool-result", params: told.result });
};

METHODS["ui/notifications/size-changed"] = (app, { height }) => {
  app.frame.style.height = `${height}px`;
};

// The whole link is shown, and only a person opens it.
METHODS["ui/open-link"] = (app, { url }) => {
  const link = URL.parse(url);
  if (!/^https?:$/.test(link?.protocol) || link.href.length > 2e3) return { isError: true };
  const place = app.box.querySelector("[data-app-link]"), anchor = place.querySelector("a");
  anchor.href = anchor.textContent = link.href;
  place.hidden = false;
  return {};
};

// Only into an empty box, so that nobody sends it with their own text.
METHODS["ui/message"] = (app, { content }) => {
  const box = byId("message");
  const words = Array.isArray(content) ? content.map((block) => block?.type === "text" ? block.text : "").join("\n") : "";
  const text = words.replace(/[^\P{C}\n\t]/gu, "").trim();
  if (!box || box.value || !text || text.length > MOST_TEXT) return { isError: true };
  box.value = text;
  fire(box, "input");
  note(app, app.box.dataset.filled);
  return {};
};

METHODS["tools/call"] = async (app, { name, arguments: values }) => {
  const body = JSON.stringify({ name, arguments: values });
  const headers = { "X-CSRFToken": find("[name=csrfmiddlewaretoken]").value };
  const { at } = await repeat(app, BUSY_TRIES, app.address + "call", { method: "POST", body, headers });
  return (await repeat(app, TRIES, at, {}, app.box.dataset.waits)).result;
};

const repeat = async (app, most, address, options, problem) => {
  let answer;
  while (most-- && app.frame.isConnected) {
    answer = await get(address, options);
    if (answer.at || answer.result) return answer;
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  throw new Wrong(problem ?? answer?.error);
};

const isMessage = (data) => {
  try {
    const { jsonrpc, method, params = {} } = data;
    return jsonrpc === "2.0" && typeof method === "string" && Object(params) === params && JSON.stringify(data).length <= MOST_CHARACTERS;
  } catch {
    return false;
  }
};

const isFlood = (app) => {
  const now = Date.now();
  if (now - app.since > WINDOW) [app.since, app.count] = [now, 0];
  return ++app.count > MOST_MESSAGES;
};

const hear = async ({ source, origin, data }) => {
  const app = [...apps].find(({ frame }) => frame.contentWindow === source);
  if (!source || !app || origin !== "null") return;
  if (isFlood(app)) {
    apps.delete(app);
    app.frame.remove();
    return note(app, app.box.dataset.stopped);
  }
  if (!isMessage(data)) return;
  const { id, method, params } = data;
  const act = METHODS[method];
  let answer;
  try {
    answer = act ? { result: await act(app, params ?? {}) } : { error: { code: -32601, message: "Not supported." } };
  } catch (error) {
    answer = { error: { code: -32000, message: error instanceof Wrong ? error.message : app.box.dataset.failed } };
  }
  if (["string", "number"].includes(typeof id)) tell(app, { id, ...answer });
};

const show = (root) => {
  for (const frame of root.querySelectorAll("[data-app] iframe[hidden]")) {
    const box = frame.closest("[data-app]");
    frame.hidden = false;
    apps.add({ box, frame, address: box.dataset.app, since: 0, count: 0 });
    frame.src = box.dataset.app;
  }
};

addEventListener("message", hear);
addEventListener("click", ({ target }) => {
  target.closest("[data-app-link] :is(a, button)")?.parentElement.setAttribute("hidden", "");
});
addEventListener("painted", ({ target }) => show(target.parentElement));
show(document);
