// Copies a message, a table or the code below.
export default async (button) => {
  const text = button.value ? load(button) : button.closest("figure").querySelector("code").textContent;
  // Within the click, for Safari.
  await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
  button.dataset.copied = "";
  announcements().textContent = announcements().dataset.copyDone;
  setTimeout(() => { delete button.dataset.copied; }, 1500);
};
