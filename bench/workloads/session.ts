import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { post, readAll, type Target } from '../gateway/client.ts';
import { PROXY, SQLITE } from '../gateway/contenders.ts';
import type { Spent } from '../gateway/server.ts';
import { type ServerProcess, startServer } from '../gateway/start-server.ts';
import { median } from '../statistics.ts';
import type { Metrics, Workload } from '../workload.ts';

const TURNS = 200;
/** Sessions that are measured, after one that is not. */
const SESSIONS = 5;
/** On the wire that the stand-in speaks. */
const MODEL = 'openai:stand-in';
const MEASURED = [10, 50, 200];
/** The figures of a turn are means over so many turns that end with it. */
const WINDOW = 10;
const RESULT = 'The part is 12 mm long and fits. '.repeat(95);
const PREFIX_BYTES = 100_000;
const SMALL_PREFIX_BYTES = 2_000;

type Client = {
  path: string;
  instructions: string;
  /** One turn in so many ends with a text, after which the user says more; the others with a call. */
  promptEvery: number;
  /** The bodies of the turns, each made from the answer before it. */
  next(answer: unknown, say: string): object;
};

const CLIENTS: Readonly<Record<string, (server: Target) => Client | Promise<Client>>> = {
  'chat, one prompt': () => chatClient(TURNS, {}),
  'chat, stored, a prompt in 10 turns': () => chatClient(10, { store: true }),
  'previous_response_id, all prompts': () => responsesClient(1, id => ({ previous_response_id: id })),
  'previous_response_id, 100 KB before them, all prompts': () =>
    responsesClient(1, id => ({ previous_response_id: id }), PREFIX_BYTES),
  'conversation, a prompt in 10 turns': async server => {
    const text = await readAll(await post(server, {}, '/v1/conversations'));
    const { id } = JSON.parse(text);
    return responsesClient(10, () => ({ conversation: id }));
  },
  'messages, 100 KB before them, a prompt in 50 turns': () => messagesClient(50),
};

/** A session of a client whose prompts, calls and results go through the gateway, compared with a proxy of the same bytes. */
export const session: Workload = {
  name: 'session',
  title: `A session of ${TURNS} turns through the gateway (SQLite): what a turn costs beyond a proxy that passes on what the gateway sends`,
  contenders: Object.keys(CLIENTS),
  repetitions: 1,
  columns: [
    ...MEASURED.map(turn => ({ label: `CPU ms, turn ${turn}`, metric: `cpuMs${turn}`, digits: 1 })),
    { label: `turn ${TURNS} ÷ turn 10`, metric: 'growth', digits: 2 },
    ...MEASURED.map(turn => ({ label: `KB stored, turn ${turn}`, metric: `stored${turn}`, digits: 1 })),
    { label: '÷ own bytes', metric: 'storedPerByte', digits: 2 },
  ],
  async measure(contender) {
    const upstream = await startUpstream();
    const server = await startServer(SQLITE, upstream.url);
    const clientOf = CLIENTS[contender];
    if (clientOf === undefined) throw new Error(`Unknown client "${contender}".`);
    const played: Session[] = [];
    for (let at = 0; at <= SESSIONS; at += 1) {
      upstream.bodies.length = 0;
      played.push(await playSession(server, await clientOf(server), upstream));
    }
    await server.stop();
    const proxied = await replay(await startServer(PROXY, upstream.url), upstream);
    await upstream.close();
    const metrics: Metrics = {};
    for (const turn of MEASURED) {
      const spent = played.slice(1).map(({ turns }) => turns.get(turn) ?? NOTHING);
      const stored = median(spent.map(each => each.stored));
      metrics[`cpuMs${turn}`] = median(spent.map(each => each.cpuMs)) - median(proxied.get(turn) ?? []);
      metrics[`stored${turn}`] = stored / 1024;
      if (turn === TURNS) metrics.storedPerByte = stored / (played[0]?.ownBytes ?? 1);
    }
    metrics.growth = (metrics[`cpuMs${TURNS}`] ?? 0) / (metrics.cpuMs10 ?? 1);
    return { requests: '', metrics };
  },
};

/** `promptEvery`: which answers are texts. */
type Upstream = { url: string; bodies: string[]; promptEvery: number; close(): Promise<void> };

/** Per turn: CPU time in ms, and what it adds to the database in bytes. `ownBytes`: what a turn says and is answered, without instructions. */
type Session = { turns: Map<number, Spent>; ownBytes: number };

const NOTHING: Spent = { cpuMs: 0, stored: 0 };

async function playSession(server: ServerProcess, client: Client, upstream: Upstream): Promise<Session> {
  const turns = new Map<number, Spent>();
  const own: number[] = [];
  let answer: unknown;
  upstream.promptEvery = client.promptEvery;
  let before = await server.measure();
  for (let turn = 1; turn <= TURNS; turn += 1) {
    const isPrompt = (turn - 1) % client.promptEvery === 0;
    const say = isPrompt ? `Measure the parts of drawer ${turn}. ${RESULT}` : RESULT;
    const text = await readAll(await post(server, client.next(answer, say), client.path));
    own.push(say.length + text.replace(client.instructions, '').length);
    answer = JSON.parse(text);
    if (upstream.bodies.length !== turn) throw new Error(`turn ${turn} was not passed on: ${text}`);
    if (turn % WINDOW !== 0) continue;
    const after = await server.measure();
    const cpuMs = (after.cpuMs - before.cpuMs) / WINDOW;
    turns.set(turn, { cpuMs, stored: (after.stored - before.stored) / WINDOW });
    before = await server.measure();
  }
  return { turns, ownBytes: own.slice(-WINDOW).reduce((sum, bytes) => sum + bytes, 0) / WINDOW };
}

/** The CPU times of a proxy per turn, in ms, one for each session, for the requests that the upstream got. */
async function replay(server: ServerProcess, { bodies: sent }: Upstream): Promise<Map<number, number[]>> {
  const turns = new Map<number, number[]>();
  const bodies = sent.slice();
  for (let session = 0; session <= SESSIONS; session += 1) {
    let before = await server.measure();
    for (const [at, body] of bodies.entries()) {
      await readAll(await post(server, JSON.parse(body), '/v1/responses'));
      if ((at + 1) % WINDOW !== 0) continue;
      const after = await server.measure();
      const known = turns.get(at + 1) ?? [];
      if (session > 0) turns.set(at + 1, [...known, (after.cpuMs - before.cpuMs) / WINDOW]);
      before = await server.measure();
    }
  }
  await server.stop();
  return turns;
}

/** A Responses server that answers with calls and texts. */
async function startUpstream(): Promise<Upstream> {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    bodies.push(body);
    response.writeHead(200, { 'content-type': 'application/json' });
    const turn = bodies.length;
    response.end(JSON.stringify(answerAs(turn, turn % upstream.promptEvery === 0)));
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const upstream: Upstream = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    bodies,
    promptEvery: 1,
    close: async () => {
      server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
  return upstream;
}

function answerAs(turn: number, isLast: boolean): object {
  const text = { type: 'output_text', text: `Measured ${turn} parts.`, annotations: [], logprobs: [] };
  const message = {
    type: 'message',
    id: `msg_${turn}`,
    status: 'completed',
    role: 'assistant',
    content: [text],
  };
  const call = {
    type: 'function_call',
    id: `fc_${turn}`,
    status: 'completed',
    call_id: `call_${turn}`,
    name: 'measure',
    arguments: JSON.stringify({ point: turn, unit: 'mm' }),
  };
  return {
    id: `resp_${turn}`,
    object: 'response',
    created_at: 1_757_687_103,
    status: 'completed',
    model: 'stand-in',
    output: [isLast ? message : call],
    usage: {
      input_tokens: 2087,
      input_tokens_details: { cached_tokens: 2048 },
      output_tokens: 24,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 2111,
    },
  };
}

const PARAMETERS = {
  type: 'object',
  properties: { point: { type: 'integer' }, unit: { type: 'string' } },
  required: ['point', 'unit'],
};

function prefixOf(bytes: number): string {
  return 'You measure parts with care. '.repeat(bytes / 29);
}

function chatClient(promptEvery: number, options: object): Client {
  const instructions = prefixOf(SMALL_PREFIX_BYTES);
  const messages: object[] = [{ role: 'system', content: instructions }];
  const tools = [
    { type: 'function', function: { name: 'measure', description: 'Measures.', parameters: PARAMETERS } },
  ];
  return {
    path: '/v1/chat/completions',
    instructions,
    promptEvery,
    next(answer, say) {
      const message = (answer as ChatAnswer | undefined)?.choices[0]?.message;
      if (message !== undefined) messages.push(message);
      const [call] = message?.tool_calls ?? [];
      messages.push(
        call === undefined
          ? { role: 'user', content: say }
          : { role: 'tool', tool_call_id: call.id, content: say },
      );
      return { model: MODEL, messages, tools, ...options };
    },
  };
}

type ChatAnswer = { choices: { message: { tool_calls?: { id: string }[] } }[] };

function responsesClient(
  promptEvery: number,
  referTo: (id: string | undefined) => object,
  prefixBytes = SMALL_PREFIX_BYTES,
): Client {
  const instructions = prefixOf(prefixBytes);
  const tools = [{ type: 'function', name: 'measure', description: 'Measures.', parameters: PARAMETERS }];
  return {
    path: '/v1/responses',
    instructions,
    promptEvery,
    next(answer, say) {
      const { id, output = [] } = (answer ?? {}) as { id?: string; output?: { call_id?: string }[] };
      const callId = output.find(({ call_id }) => call_id !== undefined)?.call_id;
      const said =
        callId === undefined
          ? { type: 'message', role: 'user', content: say }
          : { type: 'function_call_output', call_id: callId, output: say };
      return { model: MODEL, instructions, tools, input: [said], ...referTo(id) };
    },
  };
}

function messagesClient(promptEvery: number): Client {
  const instructions = prefixOf(PREFIX_BYTES);
  const messages: object[] = [];
  const tools = [{ name: 'measure', description: 'Measures.', input_schema: PARAMETERS }];
  return {
    path: '/v1/messages',
    instructions,
    promptEvery,
    next(answer, say) {
      const { content = [] } = (answer ?? {}) as { content?: { type: string; id?: string }[] };
      if (content.length > 0) messages.push({ role: 'assistant', content });
      const use = content.find(({ type }) => type === 'tool_use');
      const said = use === undefined ? say : [{ type: 'tool_result', tool_use_id: use.id, content: say }];
      messages.push({ role: 'user', content: said });
      return { model: MODEL, max_tokens: 1024, system: instructions, messages, tools };
    },
  };
}
