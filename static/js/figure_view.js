// Another view of a figure.
export default async (at) => {
  const { href } = at, figure = at.closest("figure"), find = (name) => figure.querySelector(name);
  if (href && !find(".view")) {
    const reply = await fetch(href, { headers: { "HX-Request": true } });
    if (!reply.ok || reply.headers.has("HX-Redirect")) location.assign(href);
    const view = Document.parseHTMLUnsafe(await reply.text()).body.firstElementChild;
    find(".view") || figure.append(view);
    htmx.process(view);
  }
  figure.toggleAttribute("data-view", !!href);
  find(href ? ".to-source" : ".to-view").focus();
};
