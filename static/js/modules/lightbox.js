// A picture, large.
export default (link) => {
  const box = byId("lightbox"), { src, alt } = link.querySelector("img");
  if (!box) return location.assign(link.href);
  Object.assign(box.querySelector("img"), { src, alt });
  box.querySelector("p").textContent = alt;
  box.querySelector("a").href = src + "?save";
  box.showModal();
};
