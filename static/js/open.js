// A page in place of another.
const onMain = (name, act) => on("htmx:" + name, (it) => {
  const { ctx } = it.detail;
  if (ctx?.select === "#main") act(ctx, byId("main"), it);
});
onMain("before:swap", ({ response }, main, it) => {
  if (!response.raw.ok) return it.preventDefault();
  for (const each of main.querySelectorAll("[hx-post]")) htmx.trigger(each, "htmx:abort");
});
onMain("after:swap", ({ title }, main) => {
  byId("sidebar").hidePopover();
  for (const name of ["opened", "painted"]) fire(main.firstElementChild, name);
  htmx.trigger("#sidebar-list", "refresh");
  if (!main.contains(document.activeElement)) main.focus();
  announcements().textContent = title;
});
// htmx would prevent a new tab.
on("click", (it) => (it.ctrlKey || it.metaKey || it.shiftKey) && it.target.closest("a") && it.stopPropagation(), true);
for (const name of ["response:error", "error"]) onMain(name, ({ request }) => location.assign(request.action));
// The worker looks for this page.
if (navigator.serviceWorker) navigator.serviceWorker.onmessage = ({ data, source }) => data === location.pathname && source.postMessage(0);
