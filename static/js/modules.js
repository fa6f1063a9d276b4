// Loads a module when its element is used.
const use = (at, event, given) => {
  if (!at) return;
  at.popoverTargetElement || event.preventDefault();
  import(at.dataset.module).then((it) => it.default(at, event, given)).catch(() => event.type === "click" && tell());
};
addEventListener("click", (event) => use(event.target.closest("[data-module]"), event));
document.addEventListener("selectionchange", (event) => getSelection().isCollapsed || use(find("[data-quote]"), event));
addEventListener("dragenter", (event) => event.dataTransfer.types.includes("Files") && use(byId("drop"), event));
