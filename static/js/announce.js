// Announcements and failed requests.
const announcements = () => find("[data-announcements]");
const tell = (words = announcements().dataset.unreachable) => {
  document.querySelectorAll("[data-announcements], #composer-notice, #page-notice").forEach((place) => place.replaceChildren(words));
};
{
  addEventListener("painted", ({ target }) => {
    const { title } = target.dataset;
    if (title != null) document.title = document.title.replace(/^(\(\d+\) )?/, title);
    const said = target.matches("[data-say]") ? target : target.querySelector("[data-say]");
    if (!said) return;
    announcements().textContent = said.dataset.say;
    htmx.trigger("#sidebar-list", "refresh");
  });

  const isForm = (ctx) => ctx?.sourceElement?.matches("html :is(form, button, [type=file])");
  addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
    const { status } = ctx.response;
    if (!isForm(ctx) || [409, 422].includes(status)) return;
    tell(status === 503 ? ctx.text : announcements().dataset.failed.replace("{status}", status));
  });
  addEventListener("htmx:error", ({ detail }) => isForm(detail.ctx) && tell());
}
