// Copies the text of a message or a table, or the code below.
export default async (button) => {
  const reply = button.value && await fetch(button.value);
  if (reply && (!reply.ok || reply.redirected)) throw reply;
  await navigator.clipboard.writeText(await (reply ? reply.text() : button.closest("figure").querySelector("code").textContent));
  button.dataset.copied = "";
  const place = announcements();
  place.textContent = place.dataset.copyDone;
  setTimeout(() => { delete button.dataset.copied; }, 1500);
};
