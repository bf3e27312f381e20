import Anthropic, { type ClientOptions } from '@anthropic-ai/sdk';
import type { RawMessageStreamEvent } from '@anthropic-ai/sdk/resources/messages';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Gateway } from '../responses/gateway.ts';

const ORIGIN = 'http://127.0.0.1:4100';

/** A `fetch` that calls the gateway in this process. */
export function fetchFrom(gateway: Gateway): typeof fetch {
  return async (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set('host', '127.0.0.1:4100');
    return await gateway.app.request(String(url), { ...init, headers });
  };
}

/** Anthropic's client, connected to the gateway in this process. */
export function anthropicOn(gateway: Gateway, options: ClientOptions = {}): Anthropic {
  return new Anthropic({
    baseURL: ORIGIN,
    apiKey: 'unused',
    fetch: fetchFrom(gateway),
    maxRetries: 0,
    ...options,
  });
}

type Answer = { status: number; headers: Headers; body: JsonObject };

/** Posts a body unchanged. */
export async function post(
  gateway: Gateway,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetchFrom(gateway)(`${ORIGIN}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as JsonObject };
}

export type StreamedEvent = RawMessageStreamEvent | { type: 'ping' } | { type: 'error'; error: JsonObject };

/** The events of a streamed message. Checks that each frame is named by the type of its data. */
export async function streamed(
  gateway: Gateway,
  body: object,
  onFrame: (frame: string) => void = () => {},
): Promise<StreamedEvent[]> {
  const response = await fetchFrom(gateway)(`${ORIGIN}/v1/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true }),
  });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const events: StreamedEvent[] = [];
  let rest = '';
  for await (const bytes of response.body ?? []) {
    const frames = `${rest}${new TextDecoder().decode(bytes)}`.split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      onFrame(frame);
      events.push(readFrame(frame));
    }
  }
  return events;
}

function readFrame(frame: string): StreamedEvent {
  const [, name, data] = /^event: (\S+)\ndata: (.+)$/.exec(frame) ?? [];
  const event = JSON.parse(data ?? 'null') as StreamedEvent;
  if (event?.type !== name) throw new Error(`a frame is not named by its type: ${frame}`);
  return event;
}

/**
 * Accumulates the events into a message. Throws if the events contradict each other: overlapping blocks, an index that
 * is not the next, a delta without its block, or anything after the end.
 */
export function addUp(events: readonly StreamedEvent[]): JsonObject {
  let message: JsonObject | undefined;
  const content: JsonObject[] = [];
  let open: number | undefined;
  let written = '';
  let ended = false;
  for (const event of events) {
    if (event.type === 'ping') continue;
    check(!ended, `${event.type} after the end`);
    check(message !== undefined || event.type === 'message_start', `${event.type} before message_start`);
    switch (event.type) {
      case 'message_start':
        check(message === undefined, 'two message_start');
        message = { ...(event.message as unknown as JsonObject) };
        break;
      case 'content_block_start':
        check(
          open === undefined && event.index === content.length,
          `block ${event.index} starts at ${content.length}`,
        );
        open = event.index;
        written = '';
        content.push({ ...(event.content_block as unknown as JsonObject) });
        break;
      case 'content_block_delta': {
        check(event.index === open, `a delta of block ${event.index}, which is not open`);
        const block = content[event.index] ?? {};
        const { delta } = event;
        if (delta.type === 'text_delta') block.text = `${block.text}${delta.text}`;
        if (delta.type === 'thinking_delta') block.thinking = `${block.thinking}${delta.thinking}`;
        if (delta.type === 'signature_delta') block.signature = delta.signature;
        if (delta.type === 'input_json_delta') written += delta.partial_json;
        break;
      }
      case 'content_block_stop': {
        check(event.index === open, `block ${event.index} stops, which is not open`);
        if (written !== '') (content[event.index] ?? {}).input = JSON.parse(written);
        open = undefined;
        break;
      }
      case 'message_delta':
        check(open === undefined, 'message_delta inside a block');
        Object.assign(message ?? {}, event.delta, {
          usage: { ...(message?.usage as JsonObject), ...event.usage },
        });
        break;
      case 'message_stop':
      case 'error':
        ended = true;
    }
  }
  check(ended, 'no message_stop');
  return { ...message, content };
}

function check(holds: boolean, problem: string): void {
  if (!holds) throw new Error(problem);
}
