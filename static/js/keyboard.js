// Shortcuts, and the focus after a decision.
(() => {
  document.addEventListener("keydown", (event) => {
    const keys = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + (event.altKey ? "alt+" : "") + event.code;
    const element = document.querySelector(`[data-shortcut="${keys}"]`);
    if (!element || event.defaultPrevented || document.querySelector(":popover-open")) return;
    event.preventDefault();
    element.matches("button") ? element.click() : element.focus();
  });

  // What replaces a decided card gets its focus.
  let decided = "";
  document.addEventListener("htmx:config:request", ({ target }) => {
    decided = target.closest("[data-card]:focus-within")?.id || "";
  });
  const goOn = ({ type }) => {
    const place = document.getElementById(decided), asks = place?.matches("[data-card]");
    if (!place || (asks && type === "painted")) return;
    decided = "";
    const next = asks ? place : document.querySelector("[data-card]") || place.querySelector("summary");
    if (document.activeElement === document.body) next?.focus();
  };
  document.addEventListener("htmx:finally:request", goOn);
  document.addEventListener("painted", goOn);
})();
