// Shortcuts that elements name themselves, and where the keyboard goes on after a decision.
(() => {
  document.addEventListener("keydown", (event) => {
    const combination = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + (event.altKey ? "alt+" : "") + event.code;
    const element = document.querySelector(`[data-shortcut="${combination}"]`);
    if (!element) return;
    event.preventDefault();
    element.matches("button") ? element.click() : element.focus();
  });

  // Deciding takes the card away, and with it the place of somebody who works by keyboard: who lost
  // it here gets it back.
  let decided = "";
  document.addEventListener("htmx:config:request", ({ target }) => {
    decided = target.closest("[data-card]:focus-within")?.id || "";
  });
  document.addEventListener("htmx:finally:request", () => {
    const wasIn = decided;
    decided = "";
    if (!wasIn || document.activeElement !== document.body) return;
    const place = document.getElementById(wasIn);
    const next = place?.matches("[data-card]") ? place : document.querySelector("[data-card]");
    (next || place?.querySelector("summary"))?.focus();
  });
})();
