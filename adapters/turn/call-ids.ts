import { hashText } from '../../protocol/content/hash-text.ts';
import type { ModelRequest } from '../../protocol/turn.ts';

/**
 * Generates ids for the calls of one turn that have no id or a duplicate one. The ids are derived from the
 * transcript and the call's position in the turn: repeating the turn gives the same ids, a longer transcript
 * gives others.
 */
export class CallIds {
  readonly #transcript: ModelRequest['transcript'];
  #taken: Set<string> | undefined;
  #prefix: string | undefined;

  constructor(transcript: ModelRequest['transcript']) {
    this.#transcript = transcript;
  }

  /** Returns `providerId` if it is usable and unique, else a generated id. */
  name(providerId: string | null | undefined, index: number): string {
    this.#taken ??= callIdsOf(this.#transcript);
    let id = providerId && !this.#taken.has(providerId) ? providerId : `${this.#turnPrefix()}_${index}`;
    while (this.#taken.has(id)) id = `${id}_`;
    this.#taken.add(id);
    return id;
  }

  #turnPrefix(): string {
    this.#prefix ??= `call_${hashText(JSON.stringify(this.#transcript)).slice(0, 16)}`;
    return this.#prefix;
  }
}

function callIdsOf(transcript: ModelRequest['transcript']): Set<string> {
  const ids = new Set<string>();
  for (const item of transcript) if (item.type === 'tool_call') ids.add(item.callId);
  return ids;
}
