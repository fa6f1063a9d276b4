// Copy buttons, and code that grew.
if (window.ClipboardItem) document.documentElement.dataset.copies = "";
addEventListener("painted", ({ target }) => {
  if (target.matches(".blocks > *")) target.querySelectorAll(".rest").forEach((box) => { box.checked = true; });
});
