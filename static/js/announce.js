// Announcements and failed requests.
const announcements = () => find("[data-announcements]");
const tell = (words = announcements().dataset.unreachable) => {
  for (const place of document.querySelectorAll("[data-announcements], #composer-notice, #page-notice")) place.replaceChildren(words);
};
on("painted", ({ target }) => {
  const { title } = target.dataset;
  if (title != null) document.title = document.title.replace(/^(\(\d+\) )?/, title);
  const said = target.matches("[data-say]") ? target : target.querySelector("[data-say]");
  if (!said) return;
  announcements().textContent = said.dataset.say;
  htmx.trigger("#sidebar-list", "refresh");
});

const isForm = (ctx) => ctx?.sourceElement?.matches("html :is(form, button, [type=file])");
on("htmx:response:error", ({ detail: { ctx } }) => {
  const { status } = ctx.response;
  if (!isForm(ctx) || [409, 422].includes(status)) return;
  tell(status === 503 ? ctx.text : announcements().dataset.failed.replace("{status}", status));
});
on("htmx:error", ({ detail }) => isForm(detail.ctx) && tell());
