import { type ReplayServer, startReplayServer as startServer } from '../../../adapters/conformance.ts';
import type { JsonObject } from '../../../protocol/json.ts';

export type { Answer, ReplayServer } from '../../../adapters/conformance.ts';

/** A provider on 127.0.0.1 whose base URL ends with `/v1`. */
export function startReplayServer(): Promise<ReplayServer> {
  return startServer({ path: '/v1' });
}

/** An SSE body of Responses events. */
export function sse(...events: JsonObject[]): string {
  return events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}
