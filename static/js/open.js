// A page in place of another.
const onMain = (name, act) => on("htmx:" + name, (it) => {
  const { ctx } = it.detail;
  if (ctx?.select === "#main") act(ctx, byId("main"), it);
});
onMain("before:swap", ({ response }, main, it) => {
  if (!response.raw.ok) return it.preventDefault();
  for (const each of main.querySelectorAll("[hx-post]:not(#save-draft)")) htmx.trigger(each, "htmx:abort");
});
onMain("after:swap", ({ title }, main) => {
  byId("sidebar").hidePopover();
  for (const name of ["opened", "painted"]) fire(main.querySelector("header"), name);
  htmx.trigger("#sidebar-list", "refresh");
  if (!main.contains(document.activeElement)) main.focus();
  announcements().textContent = title;
});
// The sheet of the pages beside the chat stays, so that the next one is shown at once.
onOpen(() => {
  const sheet = find("main > link");
  if (sheet && !find(`head > [href="${sheet.getAttribute("href")}"]`)) document.head.append(sheet.cloneNode());
});
// htmx would prevent a new tab.
on("click", (it) => (it.ctrlKey || it.metaKey || it.shiftKey) && it.target.closest("a") && it.stopPropagation(), true);
for (const name of ["response:error", "error"]) onMain(name, ({ request }) => location.assign(request.action));
// The worker looks for this page.
if (navigator.serviceWorker) navigator.serviceWorker.onmessage = ({ data, source }) => data === location.pathname && source.postMessage(0);
