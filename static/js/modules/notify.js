// Notifications of pages that nobody sees.
const { dataset } = find("[data-notify]");
const workers = navigator.serviceWorker;
const ready = workers.register("/worker.js").then(() => workers.ready);

const close = async (filter) => {
  for (const shown of await (await ready).getNotifications(filter)) shown.close();
};

// A visible page holds this lock. While one does, no page notifies.
let release;
const look = () => {
  release?.();
  if (document.hidden) return;
  const seen = new Promise((done) => release = done);
  navigator.locks.request("visible", { mode: "shared" }, () => seen);
  close();
};
on("visibilitychange", look);
look();

// The newest page has the newest choices.
const choices = new BroadcastChannel("notify");
choices.onmessage = ({ data }) => Object.assign(dataset, data);
choices.postMessage({ ...dataset });

// Phones let only the worker show one. Several pages with one `tag` show it once.
const show = async (title, chat, path) => {
  const { held } = await navigator.locks.query();
  const isOn = document.cookie.includes("notify=") && Notification.permission === "granted";
  if (!title || !isOn || held.some(({ name }) => name === "visible")) return;
  (await ready).showNotification(title, { body: dataset.titles && chat, tag: path, icon: dataset.icon, data: path });
};

let count = +find(".approvals").dataset.keep;
on("painted", ({ target: at }) => {
  const { keep, state } = at.dataset;
  if (at.matches(".approvals")) {
    if (keep > count && dataset.waits) show(at.querySelector(".count").textContent, "", at.pathname);
    if (keep < count) close({ tag: at.pathname });
    count = +keep;
  } else if (at.matches(".status")) show(dataset[state], find(".topbar h1")?.innerText, location.pathname);
});

// The list has the chats that are not open.
let known;
const compare = () => {
  const before = known;
  known = new Map();
  for (const at of document.querySelectorAll("#sidebar-list a:has(.dot)")) {
    const { state } = at.querySelector(".dot").dataset, path = at.pathname;
    known.set(path, state);
    if (before && state !== before.get(path)) show(dataset[state === "unread" ? "done" : state], at.querySelector(".name").innerText, path);
  }
};
on("htmx:after:swap", compare);
compare();
