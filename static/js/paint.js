// Puts changes on the page, once per screen frame, and follows the end unless the reader is elsewhere.
(() => {
  const box = document.querySelector("[data-stream]");
  if (!box) return;
  let queue = [], follows = true, asked;

  const parse = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content;
  };

  // What a person opened stays open, and a card that still asks the same keeps what was typed into it.
  const replace = (old, html) => {
    const fresh = parse(html).firstElementChild;
    const keep = fresh.dataset.keep;
    if (keep && keep === old.dataset.keep) return old;
    for (const card of fresh.querySelectorAll("[data-keep]")) {
      const same = document.getElementById(card.id);
      if (same?.dataset.keep === card.dataset.keep) card.replaceWith(same);
    }
    for (const { id } of [old, ...old.querySelectorAll("[id]")].filter((each) => each.open)) {
      const other = fresh.id === id ? fresh : fresh.querySelector("#" + CSS.escape(id));
      if (other?.localName === "details") other.open = true;
    }
    const focused = old.contains(document.activeElement);
    old.replaceWith(fresh);
    if (focused) (fresh.querySelector(":scope > summary") || fresh).focus({ preventScroll: true });
    return fresh;
  };

  const change = {
    a: (at, html) => { const fresh = parse(html), first = fresh.firstElementChild; at.append(fresh); return first; },
    r: (at, html) => { at.replaceChildren(parse(html)); },
    o: replace,
    x: (at, text) => {
      const code = at.querySelector("code") || at;
      code.lastChild?.nodeType === 3 ? code.lastChild.appendData(text) : code.append(text);
    },
    d: (at) => { at.remove(); },
  };

  const paint = () => {
    const active = document.activeElement;
    for (const [op, id, html] of queue.splice(0)) {
      const at = document.getElementById(id);
      const fresh = at && change[op](at, html);
      if (!fresh) continue;
      htmx.process(fresh);
      fresh.dispatchEvent(new CustomEvent("painted", { bubbles: true }));
    }
    if (active.isConnected && active !== document.activeElement) active.focus({ preventScroll: true });
    follow();
  };

  // To the end, but no further than where the oldest open card begins, and to that only once.
  const follow = () => {
    const card = box.querySelector("[data-card]");
    if (!follows || (card && card.id === asked)) return;
    asked = card?.id;
    box.scrollTop = box.scrollHeight;
    if (card) box.scrollTop -= Math.max(0, box.getBoundingClientRect().top + 24 - card.getBoundingClientRect().top);
  };

  box.addEventListener("changes", ({ detail }) => {
    if (!queue.length) document.hidden ? setTimeout(paint, 250) : requestAnimationFrame(paint);
    queue.push(...detail);
  });
  new IntersectionObserver(([end]) => { follows = end.isIntersecting || !!asked; }, { root: box, rootMargin: "0px 0px 80px" })
    .observe(box.querySelector("[data-end]"));
  if (!location.hash) follow();
})();
