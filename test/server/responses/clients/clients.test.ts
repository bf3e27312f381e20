import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Desk } from '../../../support/cli/desk.ts';
import { calling, Folder } from '../../../support/responses/gateway.ts';
import { ServedDesk } from '../../../support/server/served-desk.ts';

/** Several runs may share a script: the transcript determines the turn. */
const SAID = [calling('echo', { text: 'hi' }), { text: 'Said.' }, { text: 'You are welcome.' }];

/** A turn with an MCP call that runs at once, a function of the client, and an MCP call that has to be approved. */
const MIXED = { toolCalls: [{ name: 'pid' }, { name: 'ask' }, { name: 'echo', arguments: { text: 'hi' } }] };

/** The reference server of the Model Context Protocol. */
const EVERYTHING = resolve('node_modules/@modelcontextprotocol/server-everything/dist/index.js');

let folder: Folder;
let served: ServedDesk;
let openai: ReturnType<typeof play>;
let aiSdk: ReturnType<typeof play>;
let agents: ReturnType<typeof play>;

beforeAll(async () => {
  folder = new Folder({
    hello: [{ reasoning: 'a greeting', text: 'Hello there.', usage: { inputTokens: 5, outputTokens: 7 } }],
    'approve-openai': SAID,
    'approve-docs': SAID,
    'approve-ai': SAID,
    'approve-agents': SAID,
    mixed: [MIXED, { text: 'Mixed.' }, { text: 'Bye.' }],
    'session-agents': [calling('ask'), { text: 'You said yes.' }, { text: 'Now is now.' }],
    'hosted-agents': [calling('pid'), { text: 'Process one.' }, { text: 'You are welcome.' }],
    everything: [calling('echo', { message: 'hi' }), { text: 'Echoed.' }],
    'free-ai': [{ reasoning: 'let me see', ...calling('pid') }, { text: 'Done so.' }],
    'talk-ai': [
      { reasoning: 'who knows', ...calling('ask') },
      ...['One.', 'Two.', 'Three.', 'Four.'].map(text => ({ reasoning: 'so', text })),
    ],
    ask: [calling('ask'), { text: 'Asked.' }],
    failing: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
  });
  const desk = folder.server({
    require_approval: { never: { tool_names: ['pid'] }, always: { tool_names: ['echo'] } },
  });
  const everything = {
    command: process.execPath,
    args: [EVERYTHING, 'stdio'],
    require_approval: 'never',
  };
  const own = new Desk([]);
  const servers = { desk, everything };
  const config = own.write('gateway.json', JSON.stringify({ models: folder.models, mcp_servers: servers }));
  served = await ServedDesk.start(own, { args: ['--config', config] }, {});
  openai = play('openai.ts');
  aiSdk = play('ai-sdk.ts');
  agents = play('openai-agents.ts');
  for (const played of [openai, aiSdk, agents]) played.catch(() => {});
});
afterAll(async () => {
  await served.stop();
  folder.remove();
});

/** Runs a client's script to its end and returns its output. */
async function play(script: string) {
  const stdout = await runNode([resolve(`test/support/responses/clients/${script}`)]);
  return JSON.parse(stdout);
}

async function runNode(args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, OPENAI_BASE_URL: `${served.url}/v1`, OPENAI_API_KEY: 'unused' },
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', chunk => {
    stdout += chunk;
  });
  child.stderr.on('data', chunk => {
    stderr += chunk;
  });
  await new Promise(done => child.on('close', done));
  if (stdout === '') throw new Error(stderr);
  return stdout;
}

/** The first lines of a page with a client, with the address and the names of this test. */
function linesOf(page: string, model: string): string {
  const [, code = ''] =
    /```ts\n((?:import .*\n+)?const client = new [\s\S]*?)```/.exec(readFileSync(page, 'utf8')) ?? [];
  expect(code).toContain("'fast'");
  const imported = code.startsWith('import') ? code : `import OpenAI from 'openai';\n${code}`;
  return imported
    .replace('http://127.0.0.1:4100', served.url)
    .replaceAll("'fast'", `'${model}'`)
    .replace("'files'", "'desk'");
}

it.each([
  ['docs/responses.md', 'approve-docs', 'Said.\n'],
  ['docs/chat-completions.md', 'hello', 'Hello there.\n'],
  ['docs/messages.md', 'hello', "[ { type: 'text', text: 'Hello there.', citations: null } ]\n"],
])('the first lines of %s run as they stand', async (page, model, printed) => {
  expect(await runNode(['--input-type=module-typescript', '-e', linesOf(page, model)])).toBe(printed);
});

describe('the openai client', () => {
  it('creates, streams, stores, approves, answers function calls and fails as at OpenAI', async () => {
    const seen = await openai;
    expect(seen).toMatchObject({
      create: { text: 'Hello there.', status: 'completed', usage: 12 },
      stream: { text: 'Hello there.', final: 'Hello there.' },
      stored: { same: true, items: ['message'], gone: { name: 'NotFoundError', status: 404 } },
      approve: {
        asked: ['mcp_list_tools', 'mcp_approval_request'],
        done: ['mcp_call', 'message'],
        text: 'Said.',
      },
      deny: { done: ['message'], text: 'Said.' },
      functions: { name: 'ask', text: 'Asked.' },
      refused: {
        name: 'BadRequestError',
        code: 'model_not_found',
        param: 'model',
        type: 'invalid_request_error',
      },
      failed: { status: 502, sent: 1 },
      conversation: {
        echoed: true,
        texts: 4,
        kept: true,
        metadata: { topic: 'none' },
        deleted: true,
        gone: { name: 'NotFoundError', code: 'conversation_not_found' },
      },
      compact: {
        types: ['message', 'compaction'],
        usage: 12,
        text: 'Hello there.',
        counted: expect.any(Number),
      },
    });
    expect(seen.everything.call).toMatchObject({
      server_label: 'everything',
      name: 'echo',
      status: 'completed',
      output: 'Echo: hi',
    });
    expect(seen.everything.tools).toContain('echo');
    expect(seen.stream.types[0]).toBe('response.created');
    expect(seen.stream.types.at(-1)).toBe('response.completed');
  });
});

describe('the AI SDK', () => {
  it('gets an MCP call approved or denied, and continues with its own history', async () => {
    const seen = await aiSdk;
    expect(seen.approve).toMatchObject({ text: 'Said.', last: 'You are welcome.' });
    expect(seen.approve.asked).toContain('tool-approval-request');
    expect(seen.approve.done).toContain('tool-result');
    expect(seen.deny).toMatchObject({ text: 'Said.' });
    expect(seen.deny.done).not.toContain('tool-result');
    expect(seen.stream).toMatchObject({ text: 'Done so.', reasoning: 'let me see', errors: [] });
    expect(seen.stream.parts).toEqual(expect.arrayContaining(['tool-call', 'tool-result', 'text-delta']));
  });
});

describe('the AI SDK', () => {
  it('holds a conversation of four turns, with history by item ids, by value and by both', async () => {
    const { talk } = await aiSdk;
    expect(talk.texts).toEqual(['One.', 'Two.', 'Three.', 'Four.']);
    const reference = 'item_reference';
    expect(talk.sent).toEqual([
      ...['user', reference, 'function_call', 'function_call_output', reference, reference],
      ...['user', reference, reference, 'user', 'assistant', 'user'],
    ]);
  });
});

describe.each([['the AI SDK', () => aiSdk] as const, ['the Agents SDK', () => agents] as const])(
  '%s',
  (_, played) => {
    it('continues a mixed turn with an approval, and then the conversation', async () => {
      const { mixed } = await played();
      expect(mixed).toEqual({ asked: 1, texts: ['Mixed.', 'Bye.'] });
    });
  },
);

describe('the Agents SDK', () => {
  it('gets a hosted MCP call approved or denied, with its own history and with previous_response_id', async () => {
    const seen = await agents;
    for (const way of ['approve', 'deny', 'behind', 'stream'])
      expect(seen[way]).toMatchObject({ asked: 'hosted_tool_call', text: 'Said.' });
  });

  it('stores the items of its conversations session on the server', async () => {
    const { session } = await agents;
    expect(session).toEqual({
      texts: ['You said yes.', 'Now is now.'],
      types: ['message', 'function_call', 'function_call_result', 'message', 'message', 'message'],
      popped: 'message',
      left: 5,
    });
  });

  it('continues with a session that has a hosted MCP call', async () => {
    const { hosted } = await agents;
    expect(hosted).toEqual({
      texts: ['Process one.', 'You are welcome.'],
      names: ['message', 'mcp_list_tools', 'mcp_call', 'message', 'message', 'message'],
    });
  });
});

it('each approved call ran once, and no denied call ran', () => {
  expect(folder.calls().filter(name => name === 'echo')).toHaveLength(8);
});
