// Quotes selected text in the message box.
const EDGE = 8, GAP = matchMedia("(pointer: coarse)").matches ? 28 : EDGE;
let button;

// The selection in each text of one message.
const findRanges = () => {
  const whole = getSelection(), ranges = [];
  if (whole.isCollapsed) return ranges;
  const all = whole.getRangeAt(0);
  let message;
  for (const text of document.querySelectorAll("#thread :is(.bubble, .prose)")) {
    if (!all.intersectsNode(text) || message && !message.contains(text)) continue;
    const range = all.cloneRange();
    if (!text.contains(all.startContainer)) range.setStart(text, 0);
    if (!text.contains(all.endContainer)) range.setEnd(text, text.childNodes.length);
    if (!range.toString().trim()) continue;
    message ??= text.closest(".turn");
    ranges.push(range);
  }
  return ranges;
};

const clamp = (at, low, high) => Math.max(low, Math.min(at, high));

const show = () => {
  const range = findRanges().at(-1);
  if (button.hidden = !range) return;
  const { left, width, bottom } = [...range.getClientRects()].findLast((line) => line.width) ?? range.getBoundingClientRect();
  button.style.translate = "";
  const own = button.getBoundingClientRect(), area = button.parentElement.getBoundingClientRect();
  const x = clamp(left + (width - own.width) / 2, area.left + EDGE, area.right - own.width - EDGE);
  const y = clamp(bottom + GAP, area.top + EDGE, area.bottom - own.height - EDGE);
  button.style.translate = `${x - own.left}px ${y - own.top}px`;
};

// Not below a pointer that still selects.
const follow = () => {
  if (!find(":active")) return show();
  button.hidden = true;
  for (const type of ["pointerup", "pointercancel"]) on(type, show, { once: true });
};

// Without what cannot be selected.
const read = (range) => {
  const whole = getSelection();
  whole.removeAllRanges();
  whole.addRange(range);
  return whole.toString().trim();
};

const quote = () => {
  const thread = byId("thread"), box = byId("message");
  thread.dataset.read = ""; // formulas are one line meanwhile
  const lines = findRanges().map(read).join("\n\n").split(/\r?\n/);
  delete thread.dataset.read;
  if (!lines[0]) return;
  getSelection().removeAllRanges();
  button.hidden = true;
  // A box with the focus lost its caret.
  const at = document.activeElement === box ? box.value.length : box.selectionEnd;
  const gap = "\n\n".slice(box.value.slice(0, at).match(/\n{0,2}$/)[0].length);
  box.focus();
  box.setSelectionRange(at, at);
  const quoted = lines.map((line) => ("> " + line).trimEnd()).join("\n");
  // As if typed: it can be undone.
  document.execCommand("insertText", false, `${at ? gap : ""}${quoted}\n\n`);
  box.blur();
  box.focus(); // scrolls to the caret
};

export default (at, { type }) => {
  button = at;
  button.onmousedown = (it) => it.preventDefault();
  type === "click" ? quote() : follow();
};
document.onselectionchange = () => getSelection().isCollapsed && show();
window.onresize = () => button.hidden || show();
