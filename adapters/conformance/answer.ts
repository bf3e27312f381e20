import type { JsonObject } from '../../protocol/json.ts';

/** What a replay answers a request with. */
export type Answer = {
  /** Default 200. */
  status?: number;
  /** Default: the content type of server-sent events. */
  headers?: Record<string, string>;
  /** Sent one after another. */
  chunks: readonly (string | Uint8Array)[];
  /** What the end of the response waits for. */
  end?: Promise<unknown>;
  /** Cuts the connection instead of ending the response. */
  cut?: boolean;
};

/** A request as the replay got it. */
export type SeenRequest = {
  /** With the query. */
  path: string;
  /** By their names in lower case. */
  headers: Record<string, string>;
  /** `{}` when there was none. */
  body: JsonObject;
  /** Fulfilled when all chunks of the answer were sent. */
  sent: Promise<void>;
  /** Fulfilled when the answer is over: read to its end, or given up by whoever asked. */
  closed: Promise<void>;
};

export const SSE_HEADERS: Record<string, string> = { 'content-type': 'text/event-stream' };

/** The answers in turn; the last one stays. */
export class Answers {
  #answers: readonly Answer[];

  constructor(answers: readonly Answer[]) {
    this.#answers = answers;
  }

  next(): Answer {
    const [first, ...more] = this.#answers;
    if (more.length > 0) this.#answers = more;
    return (
      first ?? { status: 500, headers: { 'content-type': 'text/plain' }, chunks: ['no answer was given'] }
    );
  }
}
