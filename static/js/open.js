// A page in place of another.
{
  const on = (name, act) => addEventListener("htmx:" + name, (it) => {
    const { ctx } = it.detail;
    if (ctx?.select === "#main") act(ctx, byId("main"), it);
  });
  on("before:swap", ({ response }, main, it) => {
    if (!response.raw.ok) return it.preventDefault();
    main.querySelectorAll("[hx-post]").forEach((each) => htmx.trigger(each, "htmx:abort"));
  });
  on("after:swap", ({ title }, main) => {
    byId("sidebar").hidePopover();
    for (const name of ["opened", "painted"]) fire(main.firstElementChild, name);
    htmx.trigger("#sidebar-list", "refresh");
    if (!main.contains(document.activeElement)) main.focus();
    main.querySelector("[data-announcements]").textContent = title;
  });
  // htmx would prevent a new tab.
  addEventListener("click", (it) => (it.ctrlKey || it.metaKey || it.shiftKey) && it.target.closest("a") && it.stopPropagation(), true);
  for (const name of ["response:error", "error"]) on(name, ({ request }) => location.assign(request.action));
}
