import { createHash } from 'node:crypto';
import type { Item } from '../../protocol/item.ts';
import type { CallIdForm } from './dialect.ts';

/**
 * The ids that the calls of a transcript have in a request. One that the provider takes stays; another
 * is exchanged for one made of its digest: no two calls get the same one, and a call keeps its own from
 * request to request.
 */
export class WireCallIds {
  readonly #byCallId = new Map<string, string>();

  constructor(transcript: readonly Item[], form: CallIdForm | undefined) {
    if (!form) return;
    const callIds = transcript.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
    const taken = new Set(callIds.filter(form.fits));
    for (const callId of callIds) {
      if (form.fits(callId) || this.#byCallId.has(callId)) continue;
      let made = form.make(digestOf(callId));
      for (let again = 1; taken.has(made); again += 1) made = form.make(digestOf(`${callId} ${again}`));
      taken.add(made);
      this.#byCallId.set(callId, made);
    }
  }

  of(callId: string): string {
    return this.#byCallId.get(callId) ?? callId;
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
