// Copies code blocks and answers.
(() => {
  if (!navigator.clipboard) return;
  document.documentElement.dataset.copies = "";

  const addButtons = (root) => {
    for (const head of root.querySelectorAll(".blocks figure.code > header:not(:has(button))")) {
      head.append(document.getElementById("copy-button").content.cloneNode(true));
    }
  };

  const textOf = (button) => {
    if (button.dataset.copy === "code") return button.closest("figure").querySelector("code").textContent;
    return Array.from(button.closest(".turn").querySelectorAll(".prose"), (part) => part.innerText).join("\n\n");
  };

  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(textOf(button));
    button.dataset.copied = "";
    const place = document.querySelector("[data-announcements]");
    place.textContent = place.dataset.copyDone;
    setTimeout(() => { delete button.dataset.copied; }, 1500);
  });
  document.addEventListener("painted", ({ target }) => addButtons(target.parentElement));
  addButtons(document);
})();
