// Preloaded into programs of Node that bind all interfaces: what names no address binds loopback instead.
// Below `listen`, which looks an address up first: some programs ask for their port in the same breath.
const net = require("node:net");
const bind = net.Server.prototype._listen2;
net.Server.prototype._listen2 = function (address, ...rest) {
  return bind.call(this, address || "127.0.0.1", ...rest);
};
