/**
 * The MCP client of `mcp()` as the conformance suite starts it: an agent that calls each tool of the server at a URL. When
 * a person has to sign in, it does what the browser does, and calls again. It answers what a server asks with values of the
 * right types.
 */

import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { codeOf } from '../../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { mcp, type OAuthOptions } from '../../../tools/mcp.ts';
import { visit } from '../../support/tools/oauth/authorization-server.ts';

/** A server that is never content with the scopes of a token has no more of them. */
const MOST_SIGN_INS = 3;
/** The suite has a metadata document of this client. */
const CLIENT = 'https://conformance-test.local/client-metadata.json';

/** What the suite tells the client for some scenarios. */
const context = z
  .object({
    client_id: z.string().optional(),
    client_secret: z.string().optional(),
    toolCalls: z.array(z.object({ name: z.string(), arguments: z.record(z.string(), z.json()) })).optional(),
  })
  .parse(JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}'));
const url = process.argv.at(-1) ?? '';
const entries = new Map<string, string>();
const source = mcp({
  name: 'suite',
  url,
  timeoutMs: 20_000,
  credentials: {
    get: async key => entries.get(key),
    set: async (key, value) => void (value === null ? entries.delete(key) : entries.set(key, value)),
  },
  oauth: await readOAuth(),
});

for (let signIns = 0; !(await isDone()); signIns += 1) {
  if (signIns === MOST_SIGN_INS) throw new Error('signing in did not help');
  const begun = await source.signIn?.begin({ redirectUrl: 'http://localhost:3000/callback' });
  await source.signIn?.complete(await visit(begun?.url ?? ''));
}
await source.close();

/** Calls the tools. Returns whether no person has to sign in. */
async function isDone(): Promise<boolean> {
  const tools = await source.connect().catch(error => {
    if (codeOf(error) === 'sign-in-needed') return undefined;
    throw error;
  });
  if (tools === undefined) return false;
  const toolCalls =
    context.toolCalls ?? tools.map(({ name, ...tool }) => ({ name, arguments: argumentsFor(tool, tools) }));
  const turns =
    toolCalls.length === 0 ? [{ text: 'There are no tools.' }] : [{ toolCalls }, { text: 'Called.' }];
  const agent = createAgent({ name: 'suite', model: scripted(turns), tools: [source] });
  const run = await agent.start('Call each tool.');
  let settled = await run.settled();
  while (settled.status === 'waiting' && settled.questions.length > 0) {
    for (const open of settled.questions) {
      const answers = open.questions.map(({ key, schema }) => [key, valuesFor(schema)]);
      await run.answer(open, { answers: Object.fromEntries(answers) });
    }
    settled = await run.settled();
  }
  if (settled.status !== 'finished') throw new Error(`the run is ${settled.status}`);
  const texts: string[] = [];
  for await (const event of run.events({ follow: false })) texts.push(JSON.stringify(event));
  return !texts.some(text => text.includes('needs a sign-in'));
}

/** Valid arguments, or the schema of the tool that the suite has for that. */
function argumentsFor({ inputSchema }: Pick<Tool, 'inputSchema'>, tools: readonly Tool[]): JsonObject {
  const shown = tools.find(({ name }) => name === 'json_schema_2020_12_tool')?.origin?.tool.inputSchema ?? {};
  return valuesFor(inputSchema, shown);
}

function valuesFor({ properties }: JsonObject, shown: JsonObject = {}): JsonObject {
  if (!isJsonObject(properties)) return {};
  const values: Readonly<Record<string, JsonValue>> = { number: 5, integer: 5, boolean: true, object: shown };
  const valueFor = (schema: JsonValue) => values[isJsonObject(schema) ? String(schema.type) : ''] ?? 'text';
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, valueFor(schema)]));
}

/** A registered client belongs to the issuer that the server names at first, as its operator would know. */
async function readOAuth(): Promise<OAuthOptions> {
  const { client_id: clientId, client_secret: clientSecret } = context;
  if (clientId === undefined || clientSecret === undefined) return { clientMetadataUrl: CLIENT };
  const { origin, pathname } = new URL(url);
  const found = await fetch(`${origin}/.well-known/oauth-protected-resource${pathname}`);
  const { authorization_servers } = z
    .object({ authorization_servers: z.tuple([z.string()], z.string()) })
    .parse(await found.json());
  return { clientId, clientSecret, issuer: authorization_servers[0] };
}
