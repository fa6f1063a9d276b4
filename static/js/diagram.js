// Draws the diagram in a frame.
(async () => {
  try {
    const { light, dark } = document.body.dataset;
    mermaid.initialize(JSON.parse(matchMedia("(prefers-color-scheme: dark)").matches ? dark : light));
    drawing.innerHTML = (await mermaid.render("d", source.textContent)).svg;
  } catch ({ message }) {
    fault.textContent = message;
  }
})();
