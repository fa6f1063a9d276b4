// Shortcuts; focus after a decision.
{
  addEventListener("keydown", (it) => {
    const keys = (it.ctrlKey || it.metaKey ? "ctrl+" : "") + (it.altKey ? "alt+" : "") + (it.shiftKey ? "shift+" : "") + it.code;
    const element = find(`[data-shortcut="${keys}"]`);
    if (!element || it.defaultPrevented || find(":popover-open")) return;
    it.preventDefault();
    element.matches("button") ? element.click() : element.focus();
  });

  // Focus what replaces a decided card.
  let decided;
  addEventListener("htmx:config:request", ({ target: at, detail }) => {
    if (at.closest("[data-card]:focus-within")) decided = detail.ctx;
  });
  const goOn = ({ detail }) => {
    const place = byId(decided?.target?.id), asks = place?.matches("[data-card]");
    if (!place || asks && detail?.ctx !== decided) return;
    decided = 0;
    const next = asks ? place : find("[data-card]") || place.querySelector("summary");
    if (document.activeElement === document.body) next?.focus();
  };
  addEventListener("htmx:finally:request", goOn);
  addEventListener("painted", goOn);
}
