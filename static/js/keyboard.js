// Shortcuts, and the focus after a decision.
(() => {
  document.addEventListener("keydown", (event) => {
    const keys = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + (event.altKey ? "alt+" : "") + (event.shiftKey ? "shift+" : "") + event.code;
    const element = document.querySelector(`[data-shortcut="${keys}"]`);
    if (!element || event.defaultPrevented || document.querySelector(":popover-open")) return;
    event.preventDefault();
    element.matches("button") ? element.click() : element.focus();
  });

  // Focus what replaces a decided card.
  let decided;
  document.addEventListener("htmx:config:request", ({ target: at, detail }) => {
    if (at.closest("[data-card]:focus-within")) decided = detail.ctx;
  });
  const goOn = ({ detail }) => {
    const place = document.getElementById(decided?.target?.id), asks = place?.matches("[data-card]");
    if (!place || asks && detail?.ctx !== decided) return;
    decided = 0;
    const next = asks ? place : document.querySelector("[data-card]") || place.querySelector("summary");
    if (document.activeElement === document.body) next?.focus();
  };
  document.addEventListener("htmx:finally:request", goOn);
  document.addEventListener("painted", goOn);
})();
