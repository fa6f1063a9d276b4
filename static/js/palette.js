// Moves by arrows.
const palette = byId("palette"), box = palette.querySelector("input");

let isOld;
box.oninput = () => isOld = true;
addEventListener("htmx:finally:request", ({ target }) => {
  if (target !== box) return;
  isOld = false;
  if (palette.matches(":popover-open") && !palette.contains(document.activeElement)) box.focus();
});

palette.onkeydown = (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.isComposing) return;
  if (step) {
    const stops = [box, ...palette.querySelectorAll("li a, li button")];
    event.preventDefault();
    if (!isOld) stops.at((stops.indexOf(document.activeElement) + step) % stops.length).focus();
  } else if (/^\S$/u.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey && event.target.closest("li")) box.focus();
};

export default () => isOld == null || box.select();
