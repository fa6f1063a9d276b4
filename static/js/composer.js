const find = (what) => document.querySelector(what);
const byId = (id) => document.getElementById(id);
const fire = (at, name) => at.dispatchEvent(new Event(name, { bubbles: true }));
const on = addEventListener;
const onOpen = (begin) => (on("opened", begin), begin());
// Needs no module, so no file is lost.
const add = (files) => {
  const input = byId("files"), all = new DataTransfer();
  for (const file of files) all.items.add(file);
  input.files = all.files;
  fire(input, "change");
};
for (const type of ["dragenter", "dragover", "drop"]) on(type, (it) => {
  const at = byId("drop"), { items, files, types } = it.dataTransfer;
  if (!at || !types.includes("Files")) return;
  it.preventDefault();
  at.hidden = type === "drop";
  at.onpointermove = at.ondragleave = (it) => at.hidden = !it.relatedTarget;
  if (!at.hidden) return;
  // No browser can send a folder.
  [...items].some((each) => each.webkitGetAsEntry()?.isDirectory) ? tell(at.dataset.folder) : add(files);
});
// The message box: Enter sends, arrows choose.
const picker = () => byId("picker");
let form, text, mention, sent = "";

const word = () => text.value.slice(0, text.selectionEnd).match(/(?<!\S)@\S*$|^\/[^@]*$/)?.[0] || "";
const leave = () => {
  picker().replaceChildren();
  text.focus();
};

const read = () => {
  const before = mention.value;
  mention.value = word();
  if (before || mention.value || !text.value) htmx.trigger(picker(), "typed");
};
on("keydown", (it) => {
  if (!form || it.keyCode === 229) return;
  const { key } = it, offers = [text, ...picker().querySelectorAll(`[data-typed="${CSS.escape(word())}"] .btn`)];
  const at = offers.indexOf(it.target), step = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (key === "Escape" && picker().firstElementChild) leave();
  else if (at < 0 || it.shiftKey) return;
  else if (offers[1] && step) offers.at((at + step) % offers.length).focus();
  else if (offers[1] && !at && word() && /Enter|Tab/.test(key)) offers[1].click();
  else if (!at && key === "Enter") form.requestSubmit();
  else return;
  it.preventDefault();
});

on("click", (it) => {
  const { fill, at, named } = it.target.closest("[data-fill]")?.dataset || {};
  if (fill == null) return;
  fill && it.preventDefault();
  const kept = text.value.replace(named ?? text.value, "").trim();
  text.setRangeText((kept && kept + "\n\n") + fill, at ? text.selectionEnd - word().length : 0, at ? text.selectionEnd : 1e9, "end");
  at ? leave() : text.focus();
});

onOpen(() => {
  form = find("[data-composer]");
  if (!form) return;
  ({ text, mention } = form.elements);
  text.oninput = read;
  // A long text becomes a file.
  text.onpaste = (it) => {
    const data = it.clipboardData, words = data.getData("text");
    if (words[1e4]) add([new File([words], byId("drop").dataset.named)]);
    else if (!words && data.files[0]) add(data.files);
    else return;
    it.preventDefault();
  };
  form.addEventListener("htmx:before:request", () => sent = text.value);
  form.addEventListener("htmx:after:request", ({ target, detail: { ctx } }) => {
    if (target === form && ctx.response.raw.ok) text.value = text.value.replace(sent, "");
  });
  text.selectionStart = 1e9;
  if (matchMedia("(hover: hover)").matches && !location.hash) text.focus();
});
