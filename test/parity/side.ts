import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** A server with the Responses API. `url` ends with `/v1`. */
export type Target = { url: string; model: string; apiKey: string };

/** One request and its outcome. `events` is empty for a JSON answer; `body` is the final response or the error body. */
export type Exchange = { step: string; status: number; body: JsonValue; events: JsonObject[] };

/** The longest wait for one answer, in ms. */
const LONGEST_MS = 120_000;

/** One of the two servers in one scenario. It records every exchange. */
export class Side {
  readonly exchanges: Exchange[] = [];
  readonly #target: Target;
  readonly #streams: boolean;

  constructor(target: Target, { streams }: { streams: boolean }) {
    this.#target = target;
    this.#streams = streams;
  }

  /** Creates a response and returns the final object, or the error body. Streams if the scenario does. */
  async create(step: string, body: JsonObject): Promise<JsonObject> {
    const { model } = this.#target;
    const stream = this.#streams ? { stream: true } : {};
    return await this.#send(step, 'POST', '/responses', { model, ...body, ...stream });
  }

  /** Sends a POST with exactly this body, which need not be JSON. */
  async post(step: string, path: string, body: JsonValue): Promise<JsonObject> {
    return await this.#send(step, 'POST', path, body);
  }

  async get(step: string, path: string): Promise<JsonObject> {
    return await this.#send(step, 'GET', path);
  }

  async delete(step: string, path: string): Promise<JsonObject> {
    return await this.#send(step, 'DELETE', path);
  }

  async #send(step: string, method: string, path: string, body?: JsonValue): Promise<JsonObject> {
    const { url, apiKey } = this.#target;
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      signal: AbortSignal.timeout(LONGEST_MS),
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    const events = isStream ? readEvents(text) : [];
    const answer = isStream ? (events.at(-1)?.response ?? null) : parse(text);
    this.exchanges.push({ step, status: response.status, body: answer, events });
    return isJsonObject(answer) ? answer : {};
  }
}

/** The events of a stream, without `[DONE]` and comments. */
function readEvents(text: string): JsonObject[] {
  return text.split(/\r?\n\r?\n/).flatMap(frame => {
    const data = frame
      .split(/\r?\n/)
      .filter(line => line.startsWith('data:'))
      .map(line => line.slice('data:'.length).trimStart())
      .join('\n');
    const event = parse(data);
    return isJsonObject(event) ? [event] : [];
  });
}

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
