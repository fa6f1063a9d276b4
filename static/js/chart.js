// A table as a chart.
const load = async (url) => {
  const reply = await fetch(url, { headers: { "HX-Request": true } });
  if (!reply.ok || reply.headers.has("HX-Redirect")) location.assign(url);
  return Document.parseHTMLUnsafe(await reply.text()).body.firstElementChild;
};
export default async (at) => {
  const { href } = at, figure = at.closest("figure"), find = (name) => figure.querySelector(name);
  if (href && !find(".chart")) {
    const chart = await load(href), form = chart.querySelector("form");
    let latest = 0;
    if (form) form.onchange = async () => {
      const turn = ++latest, fresh = await load(`${href}?${new URLSearchParams(new FormData(form))}`).catch(() => tell());
      if (fresh && turn === latest) chart.lastElementChild.replaceWith(fresh.lastElementChild);
    };
    find(".chart") || figure.append(chart);
  }
  figure.toggleAttribute("data-chart", !!href);
  find(href ? ".to-table" : ".to-chart").focus();
};
