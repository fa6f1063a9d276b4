// Applies changes once per frame, and scrolls to the end unless the reader scrolled up.
(() => {
  const box = document.querySelector("[data-stream]");
  if (!box) return;
  const end = box.querySelector("[data-end]");
  let queue = [], follows = !!end, asked;

  const parse = (html) => Object.assign(document.createElement("template"), { innerHTML: html }).content;
  const byId = (id) => document.getElementById(id);
  const focus = (element) => element.focus({ preventScroll: true });

  // Open details, the focus, and what was typed into an unchanged card stay.
  const replace = (old, html) => {
    const fresh = parse(html).firstElementChild, active = document.activeElement;
    const { keep } = fresh.dataset;
    if (keep && keep === old.dataset.keep) return;
    for (const card of fresh.querySelectorAll("[data-keep]")) {
      const same = byId(card.id);
      if (same?.dataset.keep === card.dataset.keep) card.replaceWith(same);
    }
    const opened = [old, ...old.querySelectorAll("[open]")], focused = old.contains(active);
    old.replaceWith(fresh);
    for (const { id, open } of opened) if (open) byId(id)?.setAttribute("open", "");
    if (focused) focus(byId(active.id) || fresh.querySelector(":scope > summary") || fresh);
    return fresh;
  };

  const change = {
    a: (at, html) => { at.append(parse(html)); return at.lastElementChild; },
    r: (at, html) => at.replaceChildren(parse(html)),
    o: replace,
    x: (at, text) => {
      const code = at.querySelector("code") || at;
      code.lastChild?.nodeType === 3 ? code.lastChild.appendData(text) : code.append(text);
    },
    d: (at) => at.remove(),
  };

  const paint = () => {
    const active = document.activeElement;
    for (const [op, id, html] of queue.splice(0)) {
      const at = byId(id), fresh = at && change[op](at, html);
      if (!fresh) continue;
      htmx.process(fresh);
      fresh.dispatchEvent(new CustomEvent("painted", { bubbles: true }));
    }
    if (active.isConnected) focus(active);
    follow();
  };

  // To the end, or once to the start of the oldest open card.
  const follow = () => {
    const card = box.querySelector("[data-card]");
    if (!follows || (card && card.id === asked)) return;
    asked = card?.id;
    (card || end).scrollIntoView();
  };

  box.addEventListener("changes", ({ detail }) => {
    if (!queue.length) document.hidden ? setTimeout(paint, 250) : requestAnimationFrame(paint);
    queue.push(...detail);
  });
  if (!end) return;
  // Turning a wheel up lets go before the first frame.
  box.addEventListener("wheel", ({ deltaY: y }) => {
    if (y < 0 && box.scrollTop) follows = false;
    if (y > 0) follows ||= end.getBoundingClientRect().top < innerHeight;
  }, { passive: true });
  new IntersectionObserver(([seen]) => { follows = seen.isIntersecting || !!asked; }, { root: box, rootMargin: "0px 0px 80px" }).observe(end);
  if (!location.hash) follow();
})();
