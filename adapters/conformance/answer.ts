import type { JsonObject } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';

/** The response of a replay to a request. */
export type Answer = {
  /** Default: 200. */
  status?: number;
  /** Default: the content type of server-sent events. */
  headers?: Record<string, string>;
  /** The body, sent chunk by chunk. */
  chunks: readonly (string | Uint8Array)[];
  /** The response ends only after this promise has settled. */
  end?: Promise<unknown>;
  /** Whether to cut the connection instead of ending the response. */
  cut?: boolean;
};

const NAMES: NamesOf<Answer> = { status: true, headers: true, chunks: true, end: true, cut: true };

/** A request that a replay received. */
export type SeenRequest = {
  /** The path with the query. */
  path: string;
  /** The headers by their lower-case names. */
  headers: Record<string, string>;
  /** The JSON body; `{}` if there was none. */
  body: JsonObject;
  /** Resolves when all chunks of the answer have been sent. */
  sent: Promise<void>;
  /** Resolves when the answer has ended: read to its end, or abandoned by the client. */
  closed: Promise<void>;
};

/** The headers of a stream of server-sent events. */
export const SSE_HEADERS: Record<string, string> = { 'content-type': 'text/event-stream' };

/** A queue of answers; the last one is repeated. */
export class Answers {
  #answers: readonly Answer[];

  constructor(answers: readonly Answer[]) {
    for (const answer of answers) refuseUnknownOptions('an answer', answer, NAMES, 'input-invalid');
    this.#answers = answers;
  }

  /** Returns the next answer; a response with status 500 if there are none. */
  next(): Answer {
    const [first, ...more] = this.#answers;
    if (more.length > 0) this.#answers = more;
    return (
      first ?? { status: 500, headers: { 'content-type': 'text/plain' }, chunks: ['no answer was given'] }
    );
  }
}
