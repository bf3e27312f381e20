import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jsonIn } from '../../../adapters/turn/json-access.ts';
import { parseBody } from '../../../examples/stand-in/wire/read-requests.ts';
import { seeded, type WrittenTurn } from '../../../examples/stand-in/wire/turn.ts';
import { messageOf } from '../../../protocol/error.ts';
import { canonicalJson, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { findTurn, type ModelRequest, type Script, type ScriptedTurn, writeTurn } from './script.ts';
import { WIRES, type Wire } from './wires.ts';

/** How long a client may take for one prompt, in ms. */
export const PATIENCE_MS = 180_000;

/** A request as the upstream saw it. */
export type Seen = ModelRequest & {
  path: string;
  /** The script that answered, and the place of its turn. */
  script: string;
  turn: number;
  /** `answered`: to its end, which is what a provider bills. `left`: the connection closed before that. */
  outcome: 'open' | 'answered' | 'left' | 'refused';
  status: number;
  /** Why it was refused with 400: the script cannot go on, or what has to come back did not. */
  problem?: string;
  /** The calls that came back without the reasoning of their turn. */
  lost: string[];
  /** How many came back with it. */
  kept: number;
};

/**
 * A model provider on 127.0.0.1 that plays scripts on every wire. It refuses what the provider would refuse, and
 * remembers each request.
 */
export class Upstream {
  /** The requests for turns so far. */
  readonly seen: Seen[] = [];
  readonly root: string;
  scripts: readonly Script[];
  readonly #server: ReturnType<typeof createServer>;
  readonly #troubles = new Map<string, number>();
  /** What has to come back with a call. */
  readonly #issued = new Map<string, { text?: string; signature?: string }>();
  readonly #waiting = new Set<() => void>();

  private constructor(server: ReturnType<typeof createServer>, scripts: readonly Script[]) {
    this.#server = server;
    this.scripts = scripts;
    this.root = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request, response) => this.#answer(request, response));
  }

  static async start(scripts: readonly Script[]): Promise<Upstream> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Upstream(server, scripts);
  }

  /** The requests that scripts answered, without those for titles and the like. */
  get turns(): Seen[] {
    return this.seen.filter(({ script }) => script !== 'aside');
  }

  /** The turns that were answered to their end more than once, such as `task 3`. */
  get paidTwice(): string[] {
    const paid = this.turns.filter(({ outcome }) => outcome === 'answered').map(keyOf);
    return [...new Set(paid.filter((key, at) => paid.indexOf(key) !== at))];
  }

  /** The requests that lacked reasoning of earlier turns. */
  get lost(): string[] {
    return this.turns.flatMap(({ script, turn, lost }) =>
      lost.length === 0 ? [] : [`${script} ${turn}: ${lost.join(', ')}`],
    );
  }

  get problems(): string[] {
    return this.seen.flatMap(({ problem, wire, script, turn }) =>
      problem === undefined ? [] : [`${wire}, ${script} ${turn}: ${problem}`],
    );
  }

  /** Resolves once a request is as described; rejects after as long as a client may take. */
  async until(holds: (seen: readonly Seen[]) => boolean): Promise<void> {
    const deadline = AbortSignal.timeout(PATIENCE_MS);
    while (!holds(this.seen)) {
      await new Promise<void>((resolve, reject) => {
        const wake = () => resolve(void this.#waiting.delete(wake));
        this.#waiting.add(wake);
        deadline.addEventListener('abort', () => reject(new Error(`no request in time: ${holds}`)));
      });
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(resolve => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = parseBody(await textOf(request));
    const path = (request.url ?? '').replace(/\?.*/, '');
    const wire = WIRES.find(candidate => candidate.path.test(path));
    if (wire === undefined) return send(response, ...besides(path, body));
    const { items, tools, instructions } = wire.read(body);
    const { headers } = request;
    const asked: ModelRequest = { wire: wire.name, headers, body, instructions, items, tools };
    const begun = { script: '', turn: 0, outcome: 'open', status: 0, kept: 0 } as const;
    const seen: Seen = { ...asked, path, ...begun, lost: [] };
    this.seen.push(seen);
    response.on('close', () => {
      if (seen.outcome === 'open') seen.outcome = response.writableFinished ? 'answered' : 'left';
      this.#notice();
    });
    try {
      await this.#play(wire, seen, response);
    } catch (error) {
      refuse(response, wire, seen, 400, messageOf(error));
    }
    this.#notice();
  }

  async #play(wire: Wire, seen: Seen, response: ServerResponse): Promise<void> {
    const { script, at, turn } = findTurn(this.scripts, seen);
    Object.assign(seen, { script: script.name, turn: at });
    const problem = wire.refuses?.(seen.body) ?? this.#compare(wire, seen);
    if (problem !== undefined) return refuse(response, wire, seen, 400, problem);
    const trouble = this.#nextTrouble(keyOf(seen), turn);
    if (trouble?.type === 'status') {
      const { status, retryAfterS } = trouble;
      if (retryAfterS !== undefined) response.setHeader('retry-after', String(retryAfterS));
      return refuse(response, wire, seen, status, 'the script says so');
    }
    const name = `${script.name}-${at}`;
    const signature = wire.sign?.(seen.body) ?? Buffer.from(`sealed ${name}`).toString('base64');
    const written = writeTurn(turn, seen, { name, signature });
    this.#issue(turn, written);
    seen.status = 200;
    if (!wire.streams(seen.path, seen.body)) {
      if (trouble === undefined) send(response, 200, wire.encoder.whole(written));
      return;
    }
    response.writeHead(200, { 'content-type': wire.encoder.contentType });
    const blocks = wire.encoder.stream(written, seeded(at + 1));
    if (trouble === undefined) response.end(blocks.join(''));
    else response.write(blocks.slice(0, Math.ceil(blocks.length / 2)).join(''));
  }

  /** Counts what came back with the calls of earlier turns. Returns the provider's complaint. */
  #compare({ turns, returns, insists }: Wire, seen: Seen): string | undefined {
    for (const turn of turns(seen.body)) {
      const [call] = turn.calls;
      const issued = call && this.#issued.get(keyOfCall(call));
      const expected = returns === 'nothing' ? undefined : issued?.[returns];
      if (call === undefined || returns === 'nothing' || expected === undefined) continue;
      if (turn[returns] === expected) seen.kept += 1;
      else if (turn[returns] !== undefined && turn[returns] !== '')
        return `the reasoning of the call of ${call.name} came back changed`;
      else if (insists && turn[returns] === undefined)
        return `the reasoning of the call of ${call.name} must be passed back`;
      else seen.lost.push(call.name);
    }
    return undefined;
  }

  #issue({ reasoning }: ScriptedTurn, { calls, signature }: WrittenTurn): void {
    const [call] = calls;
    if (call === undefined || signature === undefined) return;
    const text = typeof reasoning === 'object' ? reasoning.text : undefined;
    const given = jsonIn(call.arguments) ?? call.arguments;
    this.#issued.set(keyOfCall({ name: call.name, arguments: given }), {
      ...omitUndefined({ text }),
      signature,
    });
  }

  #nextTrouble(key: string, { trouble }: ScriptedTurn): ScriptedTurn['trouble'] {
    const happened = this.#troubles.get(key) ?? 0;
    if (trouble === undefined || happened >= trouble.times) return undefined;
    this.#troubles.set(key, happened + 1);
    return trouble;
  }

  #notice(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}

function keyOf({ script, turn }: Seen): string {
  return `${script} ${turn}`;
}

function keyOfCall({ name, arguments: given }: { name: string; arguments: JsonValue | undefined }): string {
  return canonicalJson([name, given ?? null]);
}

/** Answers counts of tokens and lists of models. */
function besides(path: string, body: JsonObject): [status: number, body: JsonObject] {
  const tokens = Math.ceil(JSON.stringify(body).length / 4);
  if (path.endsWith('/input_tokens')) return [200, { object: 'response.input_tokens', input_tokens: tokens }];
  if (path.endsWith('/count_tokens')) return [200, { input_tokens: tokens }];
  if (path.endsWith(':countTokens')) return [200, { totalTokens: tokens }];
  if (path.endsWith('/models')) return [200, { object: 'list', data: [] }];
  return [404, { error: { message: `unknown path: ${path}` } }];
}

function refuse(response: ServerResponse, { name }: Wire, seen: Seen, status: number, message: string): void {
  Object.assign(seen, { outcome: 'refused', status, ...(status === 400 && { problem: message }) });
  const types: Record<number, string> = { 429: 'rate_limit_error', 529: 'overloaded_error' };
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  const error: JsonObject = { type, message, ...(name === 'gemini' && { code: status, status: type }) };
  if (response.headersSent) return void response.destroy();
  send(response, status, name === 'anthropic' ? { type: 'error', error } : { error });
}

function send(response: ServerResponse, status: number, body: JsonObject): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}
