// Shows how much of an upload was sent, which fetch does not tell.
const sendWith = (bar) => (address, { method, headers, body, signal }) => new Promise((done, fail) => {
  const it = new XMLHttpRequest();
  it.open(method, address);
  for (const name in headers) it.setRequestHeader(name, headers[name]);
  it.upload.onprogress = ({ loaded, total }) => bar.value = loaded / total;
  // The server still reads the files.
  it.upload.onload = () => bar.removeAttribute("value");
  it.onload = () => {
    const headers = [...it.getAllResponseHeaders().matchAll(/^(.+?): (.*)\r$/gm)].map((each) => each.slice(1));
    try { done(new Response(it.response || null, { status: it.status, headers })); } catch (error) { fail(error); }
  };
  it.onerror = () => fail(new TypeError());
  it.onabort = () => fail(signal.reason);
  signal.addEventListener("abort", () => it.abort());
  bar.removeAttribute("value");
  it.send(body);
});
on("htmx:before:request", ({ detail: { ctx } }) => {
  const bar = ctx.request.body instanceof FormData && ctx.indicators.map((each) => each.querySelector("progress")).find(Boolean);
  if (bar) ctx.fetch = sendWith(bar);
});
