// The message box: Enter sends, Shift+Enter makes a line. What was written goes only once it was accepted.
(() => {
  const form = document.querySelector("[data-composer]");
  if (!form) return;
  const { text, client_id: clientId } = form.elements;
  let sent = "";

  const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

  // Where the style sheet cannot size the box by its content.
  const fit = () => {
    if (CSS.supports("field-sizing", "content")) return;
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
  };

  text.addEventListener("input", fit);
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });

  form.addEventListener("htmx:before:request", () => { sent = text.value; });
  form.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
    if (!ctx.response.raw.ok) return;
    document.getElementById("composer-notice").replaceChildren();
    clientId.value = newId();
    text.value = text.value.replace(sent, "");
    fit();
  });

  document.addEventListener("click", (event) => {
    const starter = event.target.closest("[data-fill]");
    if (!starter) return;
    event.preventDefault();
    text.value = starter.dataset.fill;
    text.focus();
    fit();
  });
  if (matchMedia("(hover: hover)").matches && !location.hash) text.focus();
})();
