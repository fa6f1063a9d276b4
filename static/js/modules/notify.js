// Notifications of pages that nobody sees.
const { dataset } = find("[data-notify]");
const ready = navigator.serviceWorker.ready;

// A visible page holds this lock. While one does, no page notifies.
let release;
const look = async () => {
  release?.();
  if (document.hidden) return;
  navigator.locks.request("visible", { mode: "shared" }, () => document.hidden || new Promise((done) => release = done));
  for (const shown of await (await ready).getNotifications()) shown.close();
};
on("visibilitychange", look);
look();

// Phones let only the worker show one. Several pages with one `tag` show it once.
const show = async (title, chat, data) => {
  const { held } = await navigator.locks.query();
  if (!title || held.some(({ name }) => name === "visible")) return;
  (await ready).showNotification(title, { body: dataset.titles && chat, tag: title + data, icon: dataset.icon, data });
};

let count = +find(".approvals").dataset.keep;
on("painted", ({ target: at }) => {
  const { keep, state } = at.dataset;
  if (at.matches(".approvals")) {
    if (keep > count && dataset.waits) show(at.querySelector(".count").textContent, "", at.pathname);
    count = +keep;
  } else if (at.matches(".status")) show(dataset[state], find("h1").innerText, location.pathname);
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
