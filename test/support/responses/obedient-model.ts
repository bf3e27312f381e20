import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';

/**
 * A Chat Completions server that does what the last user message says: `NAME with the arguments {…}` is a call of the
 * tool NAME, if it is offered. Calls of one turn stand together; ` then ` separates turns. It answers with a text when
 * nothing is left to call.
 */
export class ObedientModel {
  /** The bodies of all requests. */
  readonly requests: JsonObject[] = [];
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString());
        this.requests.push(body);
        const streams = body.stream === true;
        response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'application/json' });
        response.end(streams ? streamOf(answer(body)) : completion(answer(body)));
      });
    });
  }

  static async listen(): Promise<ObedientModel> {
    const model = new ObedientModel();
    await new Promise<void>(done => model.#server.listen(0, '127.0.0.1', done));
    return model;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }
}

type Answer = { text: string } | { calls: { id: string; name: string; written: string }[] };

function answer({ messages, tools, response_format: format }: JsonObject): Answer {
  const history = listOf(messages);
  const asked = history.findLastIndex(({ role }) => role === 'user');
  const turns = history.slice(asked + 1).filter(({ tool_calls: made }) => Array.isArray(made)).length;
  const offered = listOf(tools).map(tool => isJsonObject(tool.function) && tool.function.name);
  const words = textOf(history[asked]?.content).split(' then ')[turns] ?? '';
  const calls = [...words.matchAll(CALL)].flatMap(([, name = '', written = ''], at) =>
    offered.includes(name) ? [{ id: `call_${history.length}_${at}`, name, written }] : [],
  );
  if (calls.length > 0) return { calls };
  return { text: isJsonObject(format) && format.type === 'json_schema' ? '{"word":"tide"}' : 'hello there' };
}

function textOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  return listOf(content)
    .map(({ text }) => (typeof text === 'string' ? text : ''))
    .join(' ');
}

const CALL = /(\w+) with the arguments (\{[^}]*\}|\[[^\]]*\])/g;
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

function listOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function callsOf(calls: Extract<Answer, { calls: unknown }>['calls']) {
  return calls.map(({ id, name, written }, index) => ({
    index,
    id,
    type: 'function',
    function: { name, arguments: written },
  }));
}

function completion(made: Answer): string {
  const message =
    'text' in made
      ? { role: 'assistant', content: made.text }
      : { role: 'assistant', content: null, tool_calls: callsOf(made.calls) };
  const finish_reason = 'text' in made ? 'stop' : 'tool_calls';
  return JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 0,
    model: 'obedient',
    usage,
    choices: [{ index: 0, message, finish_reason }],
  });
}

function streamOf(made: Answer): string {
  const chunk = (delta: JsonObject, finish_reason: string | null) => ({
    id: 'x',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'obedient',
    choices: [{ index: 0, delta, finish_reason }],
  });
  const chunks =
    'text' in made
      ? [...made.text.split(/(?= )/).map(content => chunk({ content }, null)), chunk({}, 'stop')]
      : [chunk({ tool_calls: callsOf(made.calls) }, null), chunk({}, 'tool_calls')];
  const last = {
    id: 'x',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'obedient',
    choices: [],
    usage,
  };
  return `${[...chunks, last].map(each => `data: ${JSON.stringify(each)}\n\n`).join('')}data: [DONE]\n\n`;
}
