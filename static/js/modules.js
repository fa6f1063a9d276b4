// Loads a module when its element is used.
const use = (at, it, given) => {
  if (!at) return;
  at.popoverTargetElement || it.preventDefault();
  import(at.dataset.module).then((its) => its.default(at, it, given)).catch(() => it.type === "click" && tell());
};
addEventListener("click", (it) => use(it.target.closest("[data-module]"), it));
document.addEventListener("selectionchange", (it) => getSelection().isCollapsed || use(find("[data-quote]"), it));
addEventListener("dragenter", (it) => it.dataTransfer.types.includes("Files") && use(byId("drop"), it));
// The text at a button's address.
const load = async ({ value }) => {
  const reply = await fetch(value, { redirect: "error" });
  if (!reply.ok) throw reply;
  return reply.text();
};
