// A page in place of another.
(() => {
  const on = (name, act) => document.addEventListener("htmx:" + name, ({ detail: { ctx } }) => {
    if (ctx?.select === "#main") act(ctx, document.getElementById("main"));
  });
  on("before:swap", (_, main) => {
    main.querySelectorAll("[hx-post]").forEach((each) => htmx.trigger(each, "htmx:abort"));
  });
  on("after:swap", ({ title }, main) => {
    document.getElementById("sidebar").hidePopover();
    for (const name of ["opened", "painted"]) main.firstElementChild.dispatchEvent(new Event(name, { bubbles: true }));
    htmx.trigger("#sidebar-list", "refresh");
    if (!main.contains(document.activeElement)) main.focus();
    main.querySelector("[data-announcements]").textContent = title;
  });
  // htmx would prevent a new tab.
  addEventListener("click", (it) => (it.ctrlKey || it.metaKey || it.shiftKey) && it.target.closest("a") && it.stopPropagation(), true);
  on("response:error", ({ request }) => location.assign(request.action));
})();
