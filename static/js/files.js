// Adds dropped and pasted files.
const add = (files) => {
  const input = byId("files");
  input.files = files;
  fire(input, "change");
};

const undo = async (button) => {
  const words = await load(button);
  byId("message").focus();
  document.execCommand("insertText", false, words);
  button.closest("li").remove();
};

export default (at, { type, target }, given) => {
  if (type === "click") return undo(at);
  if (given) {
    const made = new DataTransfer();
    for (const file of given.big ? [new File([given], at.dataset.named)] : given) made.items.add(file);
    return add(made.files);
  }
  at.hidden &&= target === at;
  at.ondragover = (it) => it.preventDefault();
  at.onpointermove = at.ondragleave = at.ondrop = (it) => {
    it.preventDefault();
    at.hidden = true;
    if (it.type !== "drop") return;
    const { items, files } = it.dataTransfer;
    // No browser can send a folder.
    [...items].some((each) => each.webkitGetAsEntry()?.isDirectory) ? tell(at.dataset.folder) : add(files);
  };
};
