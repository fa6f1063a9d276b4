// The line to the server: one WebSocket that only brings numbered frames. It asks for what follows the
// last number it has seen, comes back by itself, and hands the changes on to paint.js.
(() => {
  const box = document.querySelector("[data-stream]");
  if (!box) return;
  const words = document.querySelector("[data-link-state]");
  const QUIET = 45e3, SETTLED = 1e4;
  let last = +box.dataset.after, tries = 0, heard = 0, socket, again, watch, lost;

  const connect = () => {
    clearTimeout(again);
    drop();
    socket = new WebSocket(`${box.dataset.stream}?after=${last}`);
    socket.onopen = found;
    socket.onmessage = ({ data }) => hear(JSON.parse(data));
    socket.onclose = ({ code }) => (code >= 4400 ? reload() : retry());
    guard();
  };

  const found = () => {
    clearTimeout(lost);
    lost = 0;
    words.textContent = "";
  };

  const hear = ({ n, f }) => {
    tries = 0;
    guard();
    if (n <= last) return;
    last = n;
    box.dispatchEvent(new CustomEvent("changes", { detail: f }));
  };

  // A line that died without a word would never close by itself.
  const guard = () => {
    heard = Date.now();
    clearTimeout(watch);
    watch = setTimeout(() => { drop(); retry(); }, QUIET);
  };

  const drop = () => {
    if (!socket) return;
    socket.onopen = socket.onclose = socket.onmessage = null;
    socket.close();
    socket = null;
  };

  const retry = () => {
    drop();
    clearTimeout(watch);
    lost ||= setTimeout(() => { words.textContent = "Connection lost, trying again."; }, 2e3);
    again = setTimeout(connect, Math.random() * Math.min(3e4, 500 * 2 ** tries++));
  };

  // Signed out, or too far behind to go on. A page that has just loaded waits, or it might never stop.
  const reload = () => setTimeout(() => location.reload(), Math.max(0, SETTLED - performance.now()));

  const wake = () => {
    if (document.hidden || (socket && Date.now() - heard < QUIET)) return;
    tries = 0;
    connect();
  };

  addEventListener("online", wake);
  addEventListener("pageshow", wake);
  document.addEventListener("visibilitychange", wake);
  connect();
})();
