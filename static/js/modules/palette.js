// Moves by arrows, once the list has come for the text in the box.
const palette = byId("palette"), box = palette.querySelector("input");

let newest = !byId("palette-entries").childElementCount, listed = box.value, steps = 0, isPressed, isKnown;

const move = () => {
  if (newest || listed !== box.value) return;
  const stops = [box, ...palette.querySelectorAll("li a, li button")];
  stops.at((stops.indexOf(document.activeElement) + steps) % stops.length).focus();
  if (isPressed) document.activeElement.click();
  forget();
};
const forget = () => steps = isPressed = 0;

box.oninput = () => {
  isKnown = true;
  forget();
};
box.addEventListener("htmx:before:request", ({ detail }) => [newest, listed] = [detail.ctx, box.value]);
box.addEventListener("htmx:finally:request", ({ detail }) => {
  if (newest !== true && newest !== detail.ctx) return;
  newest = 0;
  isKnown = true;
  if (!palette.matches(":popover-open")) return forget();
  if (!palette.contains(document.activeElement)) box.focus();
  if (steps) move();
});

palette.onkeydown = (it) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[it.key];
  if (it.isComposing) return;
  if (step) {
    it.preventDefault();
    steps += step;
    move();
  } else if (steps && it.key === "Enter") {
    it.preventDefault();
    isPressed = 1;
  } else if (/^\S$/u.test(it.key) && !it.ctrlKey && !it.metaKey && !it.altKey && it.target.closest("li")) box.focus();
};

// Presses what is on the page.
palette.onclick = ({ target }) => find(target.closest("[data-press]")?.dataset.press)?.click();

export default () => isKnown && box.select();
