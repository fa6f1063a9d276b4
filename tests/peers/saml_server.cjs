// A SAML provider for tests, with samlify: a page with one button, which signs Ada in.
const { createServer } = require("node:http");
const { join } = require("node:path");
const { readFileSync } = require("node:fs");

const [folder, port, home, keyFile, certificateFile] = process.argv.slice(2);
const samlify = require(join(folder, "build/index.js"));
samlify.setSchemaValidator({ validate: async () => "not checked" });

const here = `http://127.0.0.1:${port}`;
const names = samlify.Constants.namespace;
const person = { uid: "ada", email: "ada@example.com", givenName: "Ada", sn: "Lovelace" };
const attributes = ["email", "givenName", "sn"].map((name) => ({
  name,
  valueTag: name,
  nameFormat: "urn:oasis:names:tc:SAML:2.0:attrname-format:basic",
  valueXsiType: "xs:string",
}));
const provider = samlify.IdentityProvider({
  entityID: "urn:samlify",
  privateKey: readFileSync(keyFile, "utf8"),
  signingCert: readFileSync(certificateFile, "utf8"),
  nameIDFormat: [names.format.persistent],
  singleSignOnService: [{ Binding: names.binding.redirect, Location: `${here}/sso` }],
  loginResponseTemplate: {
    context: samlify.SamlLib.defaultLoginResponseTemplate.context,
    attributes,
  },
});
const server = samlify.ServiceProvider({
  entityID: `${home}metadata/`,
  wantAssertionsSigned: true,
  assertionConsumerService: [{ Binding: names.binding.post, Location: home }],
});

function fillIn(requestId) {
  return (template) => {
    const now = new Date();
    const values = {
      ID: `_${crypto.randomUUID()}`,
      AssertionID: `_${crypto.randomUUID()}`,
      Destination: home,
      Audience: `${home}metadata/`,
      EntityID: `${home}metadata/`,
      SubjectRecipient: home,
      AssertionConsumerServiceURL: home,
      Issuer: "urn:samlify",
      IssueInstant: now.toISOString(),
      ConditionsNotBefore: now.toISOString(),
      ConditionsNotOnOrAfter: new Date(now.getTime() + 300_000).toISOString(),
      SubjectConfirmationDataNotOnOrAfter: new Date(now.getTime() + 300_000).toISOString(),
      StatusCode: "urn:oasis:names:tc:SAML:2.0:status:Success",
      NameIDFormat: names.format.persistent,
      NameID: person.uid,
      InResponseTo: requestId,
      attrEmail: person.email,
      attrGivenName: person.givenName,
      attrSn: person.sn,
    };
    const statement = `<saml:AuthnStatement AuthnInstant="${values.IssueInstant}"><saml:AuthnContext>`
      + "<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password"
      + "</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>";
    const whole = template.replace("{AuthnStatement}", statement);
    return { id: values.ID, context: samlify.SamlLib.replaceTagsByValue(whole, values) };
  };
}

createServer(async (request, answer) => {
  const address = new URL(request.url, here);
  const query = Object.fromEntries(address.searchParams);
  if (!query.SAMLRequest) {
    return answer.writeHead(404).end();
  }
  const asked = await provider.parseLoginRequest(server, "redirect", { query });
  const { context } = await provider.createLoginResponse(
    server, asked, "post", person, fillIn(asked.extract.request.id),
  );
  answer.writeHead(200, { "Content-Type": "text/html" }).end(
    `<form method="post" action="${home}"><input type="hidden" name="SAMLResponse" value="${context}">`
    + "<button>Sign in as Ada</button></form>",
  );
}).listen(Number(port), "127.0.0.1");
