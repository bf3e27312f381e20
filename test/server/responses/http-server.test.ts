import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { mcp } from '../../../tools/mcp.ts';
import { calling, Gateway, runOf, typesOf } from '../../support/responses/gateway.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';
import { HttpMcpServer } from '../../support/tools/http-mcp-server.ts';
import { visit } from '../../support/tools/oauth/authorization-server.ts';
import {
  closeProtected,
  startAuthorization,
  startProtected,
} from '../../support/tools/oauth/protected-desk.ts';

let server: HttpMcpServer;
let gateway: Gateway;

beforeAll(async () => {
  server = await HttpMcpServer.start();
  gateway = new Gateway(
    { say: [calling('echo', { text: 'hi' }), { text: 'Said.' }] },
    { config: () => ({ allowed_server_urls: [server.url] }) },
  );
});
afterAll(async () => {
  await gateway.close();
  await server.close();
});

function desk(more: object = {}) {
  return {
    type: 'mcp',
    server_label: 'mine',
    server_url: server.url,
    authorization: 'sk-of-the-user',
    ...more,
  };
}

describe('a server that a request names by an allowed URL', () => {
  it('gets the credentials of the request, and is disconnected when the response is over', async () => {
    const tools = [desk({ require_approval: 'never', headers: { 'x-tenant': 'acme-inc' } })];
    const response = await gateway.create({ model: 'say', input: 'go', tools });
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    expect(response.output[1]).toMatchObject({ server_label: 'mine', name: 'echo', output: 'hi' });
    const [first] = server.seen;
    expect(first?.headers.get('authorization')).toBe('Bearer sk-of-the-user');
    expect(first?.headers.get('x-tenant')).toBe('acme-inc');
    await expect.poll(() => server.sessions).toBe(0);
    const journal = await gateway.store.read(runOf(response));
    expect(JSON.stringify([response, journal, gateway.log])).not.toMatch(/sk-of-the-user|acme-inc/);
  });

  it('runs an approved call with the credentials of the approving request', async () => {
    const asked = await gateway.create({ model: 'say', input: 'go', tools: [desk()] });
    const request = asked.output.at(-1);
    expect(request?.type).toBe('mcp_approval_request');
    await expect.poll(() => server.sessions).toBe(0);
    const before = server.seen.length;
    const done = await gateway.create({
      model: 'say',
      previous_response_id: asked.id,
      tools: [desk({ authorization: 'sk-renewed' })],
      input: [{ type: 'mcp_approval_response', approval_request_id: request?.id, approve: true }],
    });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    const later = server.seen.slice(before).map(({ headers }) => headers.get('authorization'));
    expect(new Set(later)).toEqual(new Set(['Bearer sk-renewed']));
  });

  it('offers only read-only tools if the request asks for them', async () => {
    const tools = [
      desk({ allowed_tools: { read_only: true }, require_approval: { never: { read_only: true } } }),
    ];
    const response = await gateway.create({ model: 'say', input: 'go', tools });
    expect(response.output[0]?.tools).toMatchObject([{ name: 'echo', annotations: { readOnlyHint: true } }]);
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
  });

  it('does not get the tokens of the person who runs the gateway', async () => {
    vi.stubEnv('AGENTCHART_HOME', makeTemporaryFolder('home'));
    const guarded = await startProtected(await startAuthorization());
    const own = mcp({ name: 'own', url: guarded.url });
    const begun = await own.signIn?.begin({ redirectUrl: 'http://127.0.0.1:41717/callback' });
    await own.signIn?.complete(await visit(begun?.url ?? ''));
    expect(await own.connect()).toHaveLength(4);
    await own.close();
    const before = guarded.seen.length;
    const open = new Gateway(
      { say: [{ text: 'Said.' }] },
      { config: () => ({ allowed_server_urls: [guarded.url], mcp_servers: { ours: { url: guarded.url } } }) },
    );
    const named = { type: 'mcp', server_label: 'mine', server_url: guarded.url };
    const tools = [named, { type: 'mcp', server_label: 'ours' }];
    const response = await open.create({ model: 'say', input: 'go', tools });
    await open.close();
    await closeProtected();
    const later = guarded.seen.slice(before);
    expect(later.length).toBeGreaterThan(1);
    expect(later.filter(({ headers }) => headers.has('authorization'))).toEqual([]);
    expect(response.output.map(({ error }) => error).filter(Boolean)).toHaveLength(2);
  });
});
