// Push and static files. The server adds VERSION and FILES.
const on = (name, act) => addEventListener(name, (it) => it.waitUntil(act(it)));

on("activate", async () => {
  for (const name of await caches.keys()) if (name !== VERSION) await caches.delete(name);
});
on("push", ({ data }) => registration.showNotification(data.json().title, data.json()));
// Pages move without a load.
let found;
addEventListener("message", ({ source }) => found(source));
on("notificationclick", async ({ notification }) => {
  const { data } = notification;
  notification.close();
  for (const page of await clients.matchAll({ includeUncontrolled: true })) page.postMessage(data);
  const page = await new Promise((done) => setTimeout(found = done, 300));
  return page ? page.focus() : clients.openWindow(data);
});

const keep = async (request) => {
  const cache = await caches.open(VERSION);
  await cache.match(request) ?? await cache.add(request);
  return cache.match(request);
};
addEventListener("fetch", (it) => FILES.test(it.request.url) && it.respondWith(keep(it.request).catch(() => fetch(it.request))));
