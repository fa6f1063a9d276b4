// Copies code blocks and answers.

// Of a message, or of the code below.
const textOf = async (button) => (button.value ? (await fetch(button.value)).text() : button.closest("figure").querySelector("code").textContent);

export default async (button) => {
  await navigator.clipboard.writeText(await textOf(button));
  button.dataset.copied = "";
  const place = document.querySelector("[data-announcements]");
  place.textContent = place.dataset.copyDone;
  setTimeout(() => { delete button.dataset.copied; }, 1500);
};
