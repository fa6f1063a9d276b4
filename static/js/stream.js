// The socket: receives the frames after the last one seen, reconnects, and passes changes on.
(() => {
  const box = document.querySelector("[data-stream]");
  if (!box) return;
  const words = document.querySelector("[data-link-state]");
  const QUIET = 45e3;
  let last = +box.dataset.after, tries = 0, heard = 0, socket, again, watch, lost;

  const connect = () => {
    drop();
    socket = new WebSocket(box.dataset.stream + last);
    socket.onmessage = hear;
    socket.onclose = ({ code }) => (code >= 4400 ? reload() : retry());
    guard();
  };

  // A frame without a number is a state: the latest one counts.
  const hear = ({ data }) => {
    const { n, f } = JSON.parse(data);
    clearTimeout(lost);
    lost = tries = 0;
    words.textContent = "";
    guard();
    if (n <= last) return;
    last = n ?? last;
    box.dispatchEvent(new CustomEvent("changes", { detail: f }));
  };

  // A silently lost connection never closes by itself.
  const guard = () => {
    heard = Date.now();
    clearTimeout(watch);
    watch = setTimeout(retry, QUIET);
  };

  const drop = () => {
    clearTimeout(again);
    clearTimeout(watch);
    if (!socket) return;
    socket.onclose = null;
    socket.close();
    socket = null;
  };

  const retry = () => {
    drop();
    lost ||= setTimeout(() => { words.textContent = "Connection lost, trying again."; }, 2e3);
    again = setTimeout(connect, Math.random() * Math.min(3e4, 500 * 2 ** tries++));
  };

  // Signed out, or too far behind. Waits after a load, to avoid endless reloads.
  const reload = () => setTimeout(() => location.reload(), Math.max(0, 1e4 - performance.now()));

  const wake = () => {
    if (document.hidden || (socket && Date.now() - heard < QUIET)) return;
    tries = 0;
    connect();
  };

  for (const type of ["online", "pageshow", "visibilitychange"]) addEventListener(type, wake);
  connect();
})();
