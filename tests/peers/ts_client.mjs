// A program made with the protocol's TypeScript SDK: lists our tools and calls one, told as JSON.
// Arguments: address, token, tool, its arguments as JSON, the folder of the SDK.
const [address, token, name, given, home] = process.argv.slice(2);
const { Client } = await import(`${home}/dist/esm/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${home}/dist/esm/client/streamableHttp.js`);

const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const transport = new StreamableHTTPClientTransport(new URL(address), { requestInit });
const client = new Client({ name: "peer", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name, arguments: JSON.parse(given) });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), result }));
await client.close();
