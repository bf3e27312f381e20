import '@modelcontextprotocol/client';
import type { JsonObject } from '../../../protocol/json.ts';
import { createRunsApp } from '../../../server/app.ts';
import { gatewayConfigSchema } from '../../../server/gateway/config/gateway-config.ts';
import { createGateway } from '../../../server/gateway.ts';
import { readFrames } from './direct.ts';
import type { Asked } from './gateway-scenarios.ts';
import type { PlayedTurn } from './provider.ts';
import { Recording, type Surface } from './record.ts';
import { INPUT, Stage } from './stage.ts';

/** The gateway's surfaces: a conversation whose client answers the calls of each response, unstreamed and streamed. */

const ORIGIN = 'http://127.0.0.1:4100';
const ENVIRONMENT: Readonly<Record<string, string>> = {
  OPENAI_API_KEY: 'sk-golden',
  OPENAI_BASE_URL: 'https://provider.example/v1',
  ANTHROPIC_API_KEY: 'sk-golden',
  ANTHROPIC_BASE_URL: 'https://provider.example',
};

/** The APIs over a stage's store and clock; their provider is the stage's. */
function openGateway(stage: Stage, config: JsonObject) {
  const { store, host } = stage;
  const log = (line: string) => stage.log(line);
  const models = { gpt: 'openai:gpt', claude: 'anthropic:claude-sonnet-4-5' };
  const read = gatewayConfigSchema.parse({ models, ...config });
  const gateway = createGateway({ store, host, config: read, hiddenWaitMs: 60_000, log });
  const { service, agentsByRun, messages, responses, chat } = gateway;
  const app = createRunsApp({
    store,
    agents: new Map(),
    mounted: [messages, responses, chat],
    log,
    agentsByRun,
    admission: service.admission,
    host,
  });
  const send = async (method: string, path: string, body?: object) =>
    await app.request(ORIGIN + path, {
      method,
      headers: { host: '127.0.0.1:4100', ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
  return { send, close: () => service.close() };
}
type Send = ReturnType<typeof openGateway>['send'];

/** One protocol: its first request, and the request after a response; `undefined` if there is nothing to answer. */
type Protocol = {
  name: 'responses' | 'chat-completions' | 'messages';
  path: string;
  first(asked: Asked): JsonObject;
  next(before: JsonObject, response: JsonObject, asked: Asked): JsonObject | undefined;
  /** What else can be read of a response. */
  read?(id: string, recording: Recording, send: Send): Promise<void>;
};

/** The functions that the model calls. */
function functionsOf({ turns }: Asked): string[] {
  const all: readonly PlayedTurn[] =
    'length' in turns ? (turns as readonly PlayedTurn[]) : Object.values(turns).flat();
  const items = all.flatMap((turn): JsonObject[] => {
    if ('blocks' in turn) return turn.blocks;
    return 'pieces' in turn ? turn.pieces.flatMap(piece => ('item' in piece ? [piece.item] : [])) : [];
  });
  const called = items.filter(({ type }) => type === 'function_call' || type === 'tool_use');
  return [...new Set(called.map(({ name }) => String(name)))].filter(name => name !== 'echo');
}

const parameters = { type: 'object', properties: {} };
const objects = (value: unknown): JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);

const responses: Protocol = {
  name: 'responses',
  path: '/v1/responses',
  first: asked => ({
    model: asked.model ?? 'gpt',
    input: INPUT,
    tools: asked.tools ?? functionsOf(asked).map(name => ({ type: 'function', name, parameters })),
    ...asked.more,
  }),
  next(before, { id, output }, { approve = true }) {
    const answers = objects(output).flatMap((item): JsonObject[] => {
      if (item.type === 'mcp_approval_request')
        return [{ type: 'mcp_approval_response', approval_request_id: item.id ?? '', approve }];
      if (item.type !== 'function_call' && item.type !== 'custom_tool_call') return [];
      return [{ type: `${item.type}_output`, call_id: item.call_id ?? '', output: `${item.name} is done` }];
    });
    if (answers.length === 0) return undefined;
    return { ...before, previous_response_id: id ?? '', input: answers };
  },
  async read(id, recording, send) {
    for (const rest of ['', '?stream=true', '/input_items?order=asc']) {
      recording.title(`GET ${id}${rest}`);
      recording.add(await readFrames(await send('GET', `/v1/responses/${id}${rest}`)));
    }
  },
};

const chat: Protocol = {
  name: 'chat-completions',
  path: '/v1/chat/completions',
  first: asked => ({
    model: asked.model ?? 'gpt',
    messages: [{ role: 'user', content: INPUT }],
    tools: functionsOf(asked).map(name => ({ type: 'function', function: { name, parameters } })),
    stream_options: { include_usage: true },
    ...asked.chat,
  }),
  next(before, { choices }) {
    const [choice] = objects(choices);
    const message = (choice?.message ?? {}) as JsonObject;
    const answers = objects(message.tool_calls).map(({ id }) => ({
      role: 'tool',
      tool_call_id: id ?? '',
      content: 'It is done.',
    }));
    if (answers.length === 0) return undefined;
    return { ...before, messages: [...objects(before.messages), message, ...answers] };
  },
};

const messages: Protocol = {
  name: 'messages',
  path: '/v1/messages',
  first: asked => ({
    model: asked.model ?? 'gpt',
    max_tokens: 4_000,
    messages: [{ role: 'user', content: INPUT }],
    tools: functionsOf(asked).map(name => ({ name, input_schema: parameters })),
    ...asked.messages,
  }),
  next(before, { content }) {
    const answers = objects(content)
      .filter(({ type }) => type === 'tool_use')
      .map(({ id }) => ({ type: 'tool_result', tool_use_id: id ?? '', content: 'It is done.' }));
    if (answers.length === 0) return undefined;
    const said = { role: 'assistant', content: content ?? [] };
    return { ...before, messages: [...objects(before.messages), said, { role: 'user', content: answers }] };
  },
};

/** Meanwhile, the adapters and MCP clients of this process reach the provider of the stage. */
async function withProvider<Value>(stage: Stage, work: () => Promise<Value>): Promise<Value> {
  const before = globalThis.fetch;
  const known = Object.keys(ENVIRONMENT).map(name => [name, process.env[name]] as const);
  Object.assign(process.env, ENVIRONMENT);
  globalThis.fetch = stage.provider.fetch;
  try {
    return await work();
  } finally {
    globalThis.fetch = before;
    for (const [name, value] of known) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

function surfaceOf(protocol: Protocol): Surface<Asked> {
  const { name, path } = protocol;
  /** Sends requests until `next` has none, and records the answers. */
  const converse = async (
    asked: Asked,
    recording: Recording,
    next: (send: Send, stage: Stage, number: number) => Promise<boolean>,
  ) => {
    const { about, turns, config = {} } = asked;
    const stage = await Stage.open({ about, turns });
    stage.isRealTime = asked.config !== undefined;
    await withProvider(stage, async () => {
      const { send, close } = openGateway(stage, config);
      stage.atMark = async () => {
        if (name === 'responses' && recording.isOf('streamed'))
          for (const rest of ['', '&starting_after=3'])
            recording.reader(
              `late reader of resp_1${rest}`,
              send('GET', `/v1/responses/resp_1?stream=true${rest}`).then(readFrames),
            );
        await stage.host.idle();
      };
      for (let number = 1; number < 10; number += 1)
        if (!(await stage.until(next(send, stage, number)))) break;
      await stage.until(recording.readers());
      await close();
      recording.log(stage);
    });
    return stage;
  };
  return {
    name,
    leavesOut: ({ only }) => only !== undefined && !only.includes(name),
    async record(asked) {
      const recording = new Recording(asked.about);
      const bodies: JsonObject[] = [];
      let body: JsonObject | undefined = protocol.first(asked);
      await converse(asked, recording, async (send, _, number) => {
        if (body === undefined) return false;
        bodies.push(body);
        recording.title(`unstreamed ${number}`);
        recording.json(number === 1 ? { asks: body } : []);
        const response = await send('POST', path, body);
        const given = (await response.json()) as JsonObject;
        recording.json(response.status === 200 ? given : { status: response.status, ...given });
        body = protocol.next(body, given, asked);
        return true;
      });
      const ended = await converse(asked, recording, async (send, stage, number) => {
        const asks = bodies[number - 1];
        if (asks === undefined) return false;
        recording.title(`streamed ${number}`);
        const response = await send('POST', path, { ...asks, stream: true });
        const frames = await readFrames(response);
        recording.add(frames);
        if (protocol.read === undefined) return true;
        const [, id = ''] = /"id":"(resp_[^"]+)"/.exec(frames) ?? [];
        await protocol.read(id, recording, send);
        const other = openGateway(stage, {});
        recording.title(`GET ${id}?stream=true, from another process`);
        recording.add(await readFrames(await other.send('GET', `/v1/responses/${id}?stream=true`)));
        await other.close();
        return true;
      });
      return shorten(await recording.text(ended));
    },
  };
}

/** What nearly every response object has, and what stands for it, so that the rest can be read. */
const COMMON: Readonly<Record<string, string>> = {
  '<none asked>':
    '"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"max_tool_calls":null',
  '<no effort>':
    '"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"service_tier":"default"',
  '<usual text>': '"temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto"',
  '<usual sampling>':
    '"top_logprobs":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled"',
};

function shorten(text: string): string {
  return Object.entries(COMMON).reduce((shown, [name, common]) => shown.replaceAll(common, name), text);
}

export const GATEWAY: readonly Surface<Asked>[] = [responses, chat, messages].map(surfaceOf);
