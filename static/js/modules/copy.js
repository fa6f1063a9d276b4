// Copies the text at a button's address, or the code below.
const load = async ({ value }) => {
  const reply = await fetch(value, { redirect: "error" });
  if (!reply.ok) throw reply;
  return reply.text();
};

const put = (words) => {
  const box = byId("message");
  box.setRangeText(words, box.selectionEnd, box.selectionEnd, "end");
  fire(box, "input");
  box.focus();
};

// Pasted text goes back into the message.
const undo = async (button) => {
  put(await load(button));
  button.closest("li").remove();
};

// Also if not stored.
for (const name of ["error", "response:error"]) on("htmx:" + name, async ({ detail: { ctx } }) => {
  const input = ctx?.sourceElement, file = input?.files?.[0];
  if (!file || file.name !== byId("drop")?.dataset.named) return;
  input.value = "";
  put(await file.text());
});

export default async (button) => {
  if (!button.dataset.copy) return undo(button);
  const text = button.value ? load(button) : button.closest("figure").querySelector("code").textContent;
  // Within the click, for Safari.
  await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
  button.dataset.copied = "";
  announcements().textContent = announcements().dataset.copyDone;
  setTimeout(() => delete button.dataset.copied, 1500);
};
