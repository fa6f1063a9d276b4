// Copy buttons, and code that grew.
if (window.ClipboardItem) document.documentElement.dataset.copies = "";
on("painted", ({ target }) => {
  if (target.matches(".blocks > *")) for (const box of target.querySelectorAll(".rest")) box.checked = true;
});
