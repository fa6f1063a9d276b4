// A table as a chart.
const load = async (url) => {
  const reply = await fetch(url, { headers: { "HX-Request": true } }), box = document.createElement("template");
  if (!reply.ok || reply.headers.has("HX-Redirect")) location.assign(url);
  box.innerHTML = await reply.text();
  return box.content.firstElementChild;
};
const show = async (at) => {
  const { href } = at, figure = at.closest("figure");
  if (href && !figure.querySelector(".chart")) {
    const chart = await load(href), form = chart.querySelector("form");
    const draw = async () => chart.lastElementChild.replaceWith((await load(`${href}?${new URLSearchParams(new FormData(form))}`)).lastElementChild);
    if (form) form.onchange = () => draw().catch(() => tell());
    figure.append(chart);
  }
  figure.toggleAttribute("data-chart", !!href);
  figure.querySelector(href ? ".to-table" : ".to-chart").focus();
};
export default (at) => show(at).catch(() => tell());
