import { afterEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { readSession } from '../../../server/gateway/request/client-session.ts';
import { serveRuns } from '../../../server/serve.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { Gateway } from '../../support/responses/gateway.ts';

const ID = '01a22241-502a-7af0-9127-5e038ab512bc';
const OTHER = 'cc26227c-823c-4b6b-8f02-dccfebe598cd';
const MAIN = { session: { id: ID } };
const TOOLS = { tools: [{ name: 'read', input_schema: { type: 'object' } }] };

describe('the session of a request', () => {
  const read = (headers: Record<string, string>, body: unknown = {}) =>
    readSession(new Headers(headers), body);

  it.each<[string, Record<string, string>, JsonObject?]>([
    ['Codex', { 'session-id': ID, 'thread-id': ID }],
    ['Codex over a socket', {}, { client_metadata: { session_id: ID, thread_id: ID } }],
    ['Claude Code', { 'x-claude-code-session-id': ID }],
    ['Claude Code behind a proxy', {}, { metadata: { user_id: JSON.stringify({ session_id: ID }) } }],
    ['opencode', { 'x-session-affinity': ID, 'x-session-id': ID }],
    ['pi', { 'session-id': ID, 'x-client-request-id': ID }],
    ['older pi', { session_id: ID }],
  ])('is read from %s, and a request without tools is beside the conversation', (_, headers, body) => {
    expect(read(headers, { ...TOOLS, ...body })).toEqual(MAIN);
    expect(read(headers, body)).toEqual({ session: { id: ID, thread: 'side' } });
  });

  it.each<[string, Record<string, string>]>([
    ['Codex', { 'session-id': ID, 'thread-id': OTHER }],
    ['Claude Code', { 'x-claude-code-session-id': ID, 'x-claude-code-agent-id': OTHER }],
    ['opencode', { 'x-session-id': OTHER, 'x-parent-session-id': ID }],
  ])('of a sub-agent of %s is that of its parent, with a thread of its own', (_, headers) => {
    expect(read(headers)).toEqual({ session: { id: ID, thread: OTHER } });
  });

  it.each<[string, Record<string, string>, unknown?]>([
    ['nothing that names one', {}, { prompt_cache_key: ID, client_metadata: null, metadata: 'x' }],
    ['an id that is too long', { 'session-id': 'a'.repeat(129) }],
    ['an id with other characters', { 'session-id': 'a b' }, { client_metadata: { session_id: 7 } }],
    ['a user that is no JSON', {}, { metadata: { user_id: '{' } }],
    ['no object as body', {}, [1]],
  ])('is absent with %s', (_, headers, body) => {
    expect(read(headers, body)).toEqual({});
  });
});

describe('the label session of a run', () => {
  let gateway: Gateway;
  afterEach(() => gateway.close());

  const send = (path: string, body: object, headers: Record<string, string>) =>
    gateway.app.request(`http://127.0.0.1:4100/v1${path}`, {
      method: 'POST',
      headers: { host: '127.0.0.1:4100', 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'm', ...body }),
    });
  const labels = async () => (await gateway.store.list()).runs.map(run => run.labels);

  it.each<[string, object]>([
    ['/responses', { input: 'go' }],
    ['/messages', { max_tokens: 9, messages: [{ role: 'user', content: 'go' }] }],
    ['/chat/completions', { messages: [{ role: 'user', content: 'go' }] }],
  ])('comes from the client of %s', async (path, body) => {
    gateway = new Gateway({ m: [{ text: 'Done.' }] });
    const response = await send(path, body, { 'session-id': ID, 'x-claude-code-agent-id': OTHER });
    expect(response.status, await response.text()).toBe(200);
    expect(await labels()).toEqual([{ session: ID, thread: OTHER }]);
  });

  it('comes from the upgrade of a socket', async () => {
    gateway = new Gateway({ m: [{ text: 'Done.' }] });
    const serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
    const socket = await ClientSocket.open(`${serving.url}/v1/responses`, { 'session-id': ID });
    await socket.create({ model: 'm', input: 'go' });
    expect(await labels()).toEqual([{ session: ID, thread: 'side' }]);
    await serving.close();
  });

  it('neither replaces a label of the token, which decides who sees the run, nor exceeds the bound', async () => {
    const many = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`l${at}`, 'x']));
    const token = (name: string, own: Record<string, string>) => ({
      token: `token-of-${name}-0000000`,
      role: 'client',
      labels: own,
    });
    gateway = new Gateway(
      { m: [{ text: 'Done.' }, { text: 'Done.' }] },
      { config: () => ({ tokens: { one: token('one', { session: 'own' }), many: token('many', many) } }) },
    );
    for (const name of ['one', 'many']) {
      const authorization = `Bearer token-of-${name}-0000000`;
      expect((await send('/responses', { input: 'go' }, { authorization, 'session-id': ID })).status).toBe(
        200,
      );
    }
    expect(await labels()).toEqual(expect.arrayContaining([{ session: 'own', thread: 'side' }, many]));
  });

  it('does not make another request of one with the same Idempotency-Key', async () => {
    gateway = new Gateway({ m: [{ text: 'Done.' }] });
    for (const id of [ID, OTHER]) {
      const response = await send(
        '/responses',
        { input: 'go' },
        { 'session-id': id, 'idempotency-key': 'k' },
      );
      expect(response.status, await response.text()).toBe(200);
    }
    expect(await labels()).toEqual([{ session: ID, thread: 'side' }]);
  });
});
