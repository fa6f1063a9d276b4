// Loads a module when its element is used.
const use = (at, event) => {
  if (!at) return;
  at.popoverTargetElement || event.preventDefault();
  import(at.dataset.module).then((it) => it.default(at, event)).catch(() => event.type === "click" && tell());
};
addEventListener("click", (event) => use(event.target.closest("[data-module]"), event));
document.addEventListener("selectionchange", (event) => getSelection().isCollapsed || use(document.querySelector("[data-quote]"), event));
