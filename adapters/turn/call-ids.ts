import { createHash } from 'node:crypto';
import type { ModelRequest } from '../../protocol/turn.ts';

/**
 * Names the calls of one turn where the provider gave no id, or gave one twice. The ids follow from
 * the transcript and the call's place in the turn: the same turn asked again has the same ids, and a
 * longer transcript has others.
 */
export class CallIds {
  readonly #transcript: ModelRequest['transcript'];
  #taken: Set<string> | undefined;
  #prefix: string | undefined;

  constructor(transcript: ModelRequest['transcript']) {
    this.#transcript = transcript;
  }

  /** `given` if it is fit to use, else an id of ours. */
  name(given: string | null | undefined, index: number): string {
    this.#taken ??= callIdsOf(this.#transcript);
    let id = given && !this.#taken.has(given) ? given : `${this.#turnPrefix()}_${index}`;
    while (this.#taken.has(id)) id = `${id}_`;
    this.#taken.add(id);
    return id;
  }

  #turnPrefix(): string {
    this.#prefix ??= `call_${createHash('sha256')
      .update(JSON.stringify(this.#transcript))
      .digest('hex')
      .slice(0, 16)}`;
    return this.#prefix;
  }
}

function callIdsOf(transcript: ModelRequest['transcript']): Set<string> {
  const ids = new Set<string>();
  for (const item of transcript) if (item.type === 'tool_call') ids.add(item.callId);
  return ids;
}
