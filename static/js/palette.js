// Opens the palette, and moves in its list.
const palette = document.getElementById("palette"), box = palette.querySelector("input");

palette.onkeydown = (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    const stops = [box, ...palette.querySelectorAll("li a, li button")];
    event.preventDefault();
    stops.at((stops.indexOf(document.activeElement) + step) % stops.length).focus();
  } else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey && event.target.closest("li")) box.focus();
};

export default () => {
  palette.showPopover();
  box.select();
};
