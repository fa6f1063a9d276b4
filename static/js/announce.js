// Says in one polite line what a new element is about, keeps the list of chats in step, and
// puts failed requests into words.
(() => {
  const line = document.querySelector("[data-announcements]");
  const notice = document.getElementById("composer-notice");

  document.addEventListener("painted", ({ target }) => {
    const said = target.matches("[data-say]") ? target : target.querySelector("[data-say]");
    if (!said) return;
    line.textContent = said.dataset.say;
    htmx.trigger("#sidebar-list", "refresh");
  });

  const tell = (source, words) => {
    if (!source?.matches("form")) return;
    line.textContent = words;
    if (notice) notice.textContent = words;
  };
  document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
    if (![409, 422].includes(ctx.response.status)) {
      tell(ctx.sourceElement, `That did not work (${ctx.response.status}). Reload the page and try again.`);
    }
  });
  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    tell(ctx?.sourceElement, "The server cannot be reached. Nothing is lost: try again in a moment.");
  });
})();
