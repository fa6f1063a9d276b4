// Announces changes, updates the title and the list of chats, and reports failed requests.
(() => {
  const line = document.querySelector("[data-announcements]");

  document.addEventListener("painted", ({ target }) => {
    const { title } = target.dataset;
    if (title != null) document.title = document.title.replace(/^(\(\d+\) )?/, title);
    const said = target.matches("[data-say]") ? target : target.querySelector("[data-say]");
    if (!said) return;
    line.textContent = said.dataset.say;
    htmx.trigger("#sidebar-list", "refresh");
  });

  const tell = (ctx, words) => {
    if (!ctx?.sourceElement?.matches("form")) return;
    for (const place of [line, document.getElementById("composer-notice")]) place?.replaceChildren(words);
  };
  document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
    const { status } = ctx.response;
    if (status === 503) tell(ctx, ctx.text);
    else if (![409, 422].includes(status)) tell(ctx, `That did not work (${status}). Reload the page and try again.`);
  });
  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    tell(ctx, "The server cannot be reached. Nothing is lost: try again in a moment.");
  });
})();
