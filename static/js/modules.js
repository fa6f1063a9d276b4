// Loads a module when its element is used.
const use = (at, it) => {
  if (!at) return;
  at.popoverTargetElement || it.preventDefault();
  import(at.dataset.module).then((its) => its.default(at, it)).catch(() => tell());
};
on("click", (it) => use(it.target.closest("[data-module]"), it));
document.addEventListener("selectionchange", (it) => getSelection().isCollapsed || use(find("[data-quote]"), it));
