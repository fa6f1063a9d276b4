// Receives frames, reconnects.
const QUIET = 45e3;
let box, words, last, tries, heard, socket, timer, lost;

const connect = () => {
  drop();
  socket = new WebSocket(box.dataset.stream + last);
  socket.onmessage = hear;
  socket.onclose = ({ code }) => {
    if (code < 4400) retry();
    else timer = setTimeout(() => location.reload(), 1e4 - performance.now());
  };
  guard();
};

// A frame without a number is a state.
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

// A lost connection never closes.
const guard = () => {
  heard = Date.now();
  clearTimeout(timer);
  timer = setTimeout(retry, QUIET);
};

const drop = () => {
  clearTimeout(timer);
  if (socket) socket.onmessage = socket.onclose = null;
  socket?.close();
  socket = null;
};

const retry = () => {
  drop();
  lost ||= setTimeout(() => words.textContent = words.dataset.lost, 2e3);
  timer = setTimeout(connect, Math.random() * Math.min(3e4, 500 * 2 ** tries++));
};

const wake = () => {
  if (!box || document.hidden || socket && Date.now() - heard < QUIET) return;
  tries = 0;
  connect();
};

on("offline", () => box && retry());
for (const type of ["online", "pageshow", "visibilitychange"]) on(type, wake);
onOpen(() => {
  drop();
  clearTimeout(lost);
  box = find("[data-stream]");
  words = find("[data-link-state]");
  lost = tries = 0;
  if (!box) return;
  last = +box.dataset.after;
  connect();
});
