// Announces changes, reports failed requests.
(() => {
  const box = () => document.querySelector("[data-announcements]");
  document.addEventListener("painted", ({ target }) => {
    const { title } = target.dataset;
    if (title != null) document.title = document.title.replace(/^(\(\d+\) )?/, title);
    const said = target.matches("[data-say]") ? target : target.querySelector("[data-say]");
    if (!said) return;
    box().textContent = said.dataset.say;
    htmx.trigger("#sidebar-list", "refresh");
  });

  const tell = (ctx, words) => {
    const form = ctx?.sourceElement;
    if (!form?.isConnected || !form.matches("form")) return;
    document.querySelectorAll("[data-announcements], #composer-notice").forEach((place) => place.replaceChildren(words));
  };
  document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
    const { status } = ctx.response;
    if (status === 503) tell(ctx, ctx.text);
    else if (![409, 422].includes(status)) tell(ctx, box().dataset.failed.replace("{status}", status));
  });
  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    tell(ctx, box().dataset.unreachable);
  });
})();
