const onOpen = (begin) => (document.addEventListener("opened", begin), begin());
// The message box: Enter sends, arrows choose a suggestion.
(() => {
  const picker = () => document.getElementById("picker");
  let form, text, mention, sent = "";

  const word = () => text.value.slice(0, text.selectionEnd).match(/(?<!\S)@\S*$/)?.[0] || "";
  const leave = () => {
    picker().replaceChildren();
    text.focus();
  };

  const read = () => {
    const before = mention.value;
    mention.value = word();
    if (before || mention.value || /^(\/|$)/.test(text.value)) htmx.trigger(picker(), "typed");
  };
  document.addEventListener("keydown", (event) => {
    if (!form) return;
    const { key } = event, offers = [text, ...picker().querySelectorAll(`[data-typed="${CSS.escape(word())}"] .btn`)];
    const at = offers.indexOf(event.target), step = { ArrowDown: 1, ArrowUp: -1 }[key];
    if (key === "Escape" && picker().firstElementChild) leave();
    else if (at < 0 || event.shiftKey || event.keyCode === 229) return;
    else if (offers[1] && step) offers.at((at + step) % offers.length).focus();
    else if (offers[1] && !at && word() && /Enter|Tab/.test(key)) offers[1].click();
    else if (!at && key === "Enter") form.requestSubmit();
    else return;
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const { fill, at, named } = event.target.closest("[data-fill]")?.dataset || {};
    if (fill == null) return;
    event.preventDefault();
    const kept = text.value.replace(named ?? text.value, "").trim();
    text.setRangeText((kept && kept + "\n\n") + fill, at ? text.selectionEnd - word().length : 0, at ? text.selectionEnd : 1e9, "end");
    at ? leave() : text.focus();
  });

  onOpen(() => {
    form = document.querySelector("[data-composer]");
    if (!form) return;
    ({ text, mention } = form.elements);
    text.oninput = read;
    form.addEventListener("htmx:before:request", () => { sent = text.value; });
    form.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
      if (ctx.response.raw.ok) text.value = text.value.replace(sent, "");
    });
    text.selectionStart = 1e9;
    if (matchMedia("(hover: hover)").matches && !location.hash) text.focus();
  });
})();
