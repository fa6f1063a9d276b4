// Preloaded into node servers that bind all interfaces: every listener is bound to loopback instead.
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (first, ...rest) {
  if (typeof first === "object" && first !== null) {
    return listen.call(this, { ...first, host: "127.0.0.1" }, ...rest);
  }
  const callback = rest.find((argument) => typeof argument === "function");
  return listen.call(this, { port: Number(first), host: "127.0.0.1" }, callback);
};
