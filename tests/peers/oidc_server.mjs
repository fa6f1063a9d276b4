// An OpenID provider for tests: any name signs in, and its address is verified.
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [folder, port, redirectUri] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(join(folder, "lib/index.js")));

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "countersign",
    client_secret: "client-secret-of-the-test",
    redirect_uris: [redirectUri],
    token_endpoint_auth_method: "client_secret_post",
  }],
  claims: { openid: ["sub"], profile: ["name", "groups"], email: ["email", "email_verified"] },
  conformIdTokenClaims: false,
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({
      sub: id, name: "Ada Lovelace", groups: ["chat"], email: `${id}@example.com`, email_verified: true,
    }),
  }),
});
provider.listen(Number(port), "127.0.0.1");
