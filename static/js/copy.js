// Copies code blocks and answers.
(() => {
  if (!navigator.clipboard) return;
  document.documentElement.dataset.copies = "";

  const addButtons = (root) => {
    for (const head of root.querySelectorAll(".blocks figure.code > header:not(:has(button))")) {
      head.append(document.getElementById("copy-button").content.cloneNode(true));
    }
  };

  // Of a message, or of the code below.
  const textOf = async (button) => button.value ? (await fetch(button.value)).text() : button.closest("figure").querySelector("code").textContent;

  addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(await textOf(button));
    button.dataset.copied = "";
    const place = document.querySelector("[data-announcements]");
    place.textContent = place.dataset.copyDone;
    setTimeout(() => { delete button.dataset.copied; }, 1500);
  });
  document.addEventListener("painted", ({ target }) => addButtons(target.parentElement));
  addButtons(document);
})();
