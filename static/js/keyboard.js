// Shortcuts and focus.
on("keydown", (it) => {
  const keys = (it.ctrlKey || it.metaKey ? "ctrl+" : "") + (it.altKey ? "alt+" : "") + (it.shiftKey ? "shift+" : "") + it.code;
  const at = find(`[data-shortcut="${keys}"]`);
  if (!at || it.keyCode === 229 || it.defaultPrevented || find(":popover-open")) return;
  it.preventDefault();
  at.matches("section") ? at.focus() : at.click();
});
on("focusin", ({ target: at }) => /^title-/.test(at.id) && at.select());

// Focus what replaces a decided card.
let decided;
on("htmx:config:request", ({ target: at, detail }) => {
  if (at.closest("[data-card]:focus-within")) decided = detail.ctx;
});
const goOn = ({ detail }) => {
  const place = byId(decided?.target?.id), asks = place?.matches("[data-card]");
  if (!place || asks && detail?.ctx !== decided) return;
  decided = 0;
  const next = asks ? place : find("[data-card]") || place.querySelector("summary");
  if (document.activeElement === document.body) next?.focus();
};
on("htmx:finally:request", goOn);
on("painted", goOn);
