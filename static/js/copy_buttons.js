// Shows the buttons that copy, and adds those of code blocks.
(() => {
  if (!navigator.clipboard) return;
  document.documentElement.dataset.copies = "";

  const addButtons = (root) => {
    for (const head of root.querySelectorAll(".blocks figure.code > header:not(:has(button))")) {
      head.append(document.getElementById("copy-button").content.cloneNode(true));
    }
  };
  document.addEventListener("painted", ({ target }) => addButtons(target.parentElement));
  addButtons(document);
})();
