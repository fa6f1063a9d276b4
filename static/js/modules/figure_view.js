// Another view of a figure.
const load = async (url) => {
  const reply = await fetch(url, { headers: { "HX-Request": true } });
  if (!reply.ok || reply.headers.has("HX-Redirect")) location.assign(url);
  return Document.parseHTMLUnsafe(await reply.text()).body.firstElementChild;
};
export default async (at) => {
  const { href } = at, figure = at.closest("figure"), find = (name) => figure.querySelector(name);
  if (href && !find(".view")) {
    const view = await load(href);
    let latest;
    view.onchange = async ({ target: { form } }) => {
      const url = latest = `${href}?${new URLSearchParams(new FormData(form))}`, fresh = await load(url).catch(() => tell());
      if (fresh && url === latest) view.lastElementChild.replaceWith(fresh.lastElementChild);
    };
    find(".view") || figure.append(view);
  }
  figure.toggleAttribute("data-view", !!href);
  find(href ? ".to-source" : ".to-view").focus();
};
