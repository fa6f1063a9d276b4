// Push and static files. The server adds VERSION and FILES.
const on = (name, act) => addEventListener(name, (it) => it.waitUntil(act(it)));

on("activate", async () => {
  for (const name of await caches.keys()) if (name !== VERSION) await caches.delete(name);
});
on("push", ({ data }) => registration.showNotification(data.json().title, data.json()));
on("notificationclick", ({ notification }) => {
  notification.close();
  return clients.openWindow(notification.data);
});

const keep = async (request) => {
  const cache = await caches.open(VERSION);
  await cache.match(request) ?? await cache.add(request);
  return cache.match(request);
};
addEventListener("fetch", (it) => FILES.test(it.request.url) && it.respondWith(keep(it.request).catch(() => fetch(it.request))));
