// Moves by arrows.
const palette = byId("palette"), box = palette.querySelector("input");

let isOld;
box.oninput = () => isOld = true;
box.addEventListener("htmx:finally:request", () => {
  isOld = false;
  if (palette.matches(":popover-open") && !palette.contains(document.activeElement)) box.focus();
});

palette.onkeydown = (it) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[it.key];
  if (it.isComposing) return;
  if (step) {
    const stops = [box, ...palette.querySelectorAll("li a, li button")];
    it.preventDefault();
    if (!isOld) stops.at((stops.indexOf(document.activeElement) + step) % stops.length).focus();
  } else if (/^\S$/u.test(it.key) && !it.ctrlKey && !it.metaKey && !it.altKey && it.target.closest("li")) box.focus();
};

// Presses what is on the page.
palette.onclick = ({ target }) => find(target.closest("[data-press]")?.dataset.press)?.click();

export default () => isOld == null || box.select();
