// Paints changes, follows the end.
const parse = (html) => Object.assign(document.createElement("template"), { innerHTML: html }).content;
const focusOn = (at) => at.focus({ preventScroll: true });

// Details, focus and typed words stay.
const replace = (old, html) => {
  const fresh = parse(html).firstElementChild, active = document.activeElement, focused = old.contains(active);
  const { keep, typed } = fresh.dataset;
  if (keep && keep === old.dataset.keep || typed && focused) return;
  for (const card of fresh.querySelectorAll("[data-keep]")) {
    const same = byId(card.id);
    if (same?.dataset.keep === card.dataset.keep) card.replaceWith(same);
  }
  const opened = [old, ...old.querySelectorAll("[open]")];
  old.replaceWith(fresh);
  for (const { id, open } of opened) if (open) byId(id)?.setAttribute("open", "");
  if (focused) focusOn(active.isConnected ? active : byId(active.id) || fresh.querySelector(":scope > summary") || byId(fresh.dataset.then) || fresh);
  return [fresh];
};

const change = {
  a: (at, html) => { const made = parse(html), all = [...made.children]; at.append(made); return all; },
  r: (at, html) => { at.innerHTML = ""; return change.a(at, html); },
  o: replace,
  x: (at, text) => {
    const code = at.querySelector("code") || at;
    code.lastChild?.nodeType === 3 ? code.lastChild.appendData(text) : code.append(text);
  },
  d: (at) => at.remove(),
};

onOpen(() => {
  const box = find("[data-stream]");
  if (!box) return;
  const end = box.querySelector("[data-end]");
  let queue = [], follows = end, top = box.scrollTop, asked;

  const paint = () => {
    if (!box.isConnected || !queue.length) return;
    for (const [op, id, html] of queue.splice(0)) {
      const at = byId(id);
      for (const fresh of at && change[op](at, html) || []) htmx.process(fresh), fire(fresh, "painted");
    }
    follow();
  };

  // To the end; once to the oldest open card.
  const follow = () => {
    const card = box.querySelector("[data-card]");
    if (!follows || card && card.id === asked) return;
    asked = card?.id;
    (card || end).scrollIntoView();
    top = box.scrollTop;
  };

  box.addEventListener("changes", ({ detail }) => {
    if (!queue.length) {
      document.hidden || requestAnimationFrame(paint);
      // A page that is hidden by then has no frame.
      setTimeout(paint, 250);
    }
    queue.push(...detail);
  });
  if (!end) return;
  const near = (px) => box.scrollHeight - box.clientHeight - box.scrollTop < px;
  // Up lets go.
  const turn = (by) => by && (follows = by > 0 && (follows || near(80)));
  box.addEventListener("wheel", ({ deltaY }) => turn(box.scrollTop && deltaY), { passive: true });
  box.onscroll = () => {
    box.toggleAttribute("data-more", !near(1));
    const by = box.scrollTop - top;
    top += by;
    if (by > 0 || !near(1)) turn(by);
    if (by < 0 && top < 800) byId("earlier")?.firstElementChild.click();
  };
  // Keeps the place.
  box.addEventListener("htmx:before:swap", ({ target: { parentElement: place }, detail: { ctx } }) => {
    if (place.id !== "earlier" || !ctx.response.raw.ok) return;
    const below = box.scrollHeight - box.scrollTop, focused = place.matches(":focus-within");
    place.remove();
    box.addEventListener("htmx:after:swap", () => {
      top = box.scrollTop = box.scrollHeight - below;
      if (focused) focusOn(box);
      fire(box.querySelector("li"), "painted");
    }, { once: true });
  });
  // A rating comes without a change if the socket is not connected yet.
  box.addEventListener("htmx:after:swap", ({ detail }) => detail.ctx.target.closest(".feedback") && follow());
  location.hash[7] ? follows = near(80) : follow();
});
