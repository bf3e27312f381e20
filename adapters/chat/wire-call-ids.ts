import { hashText } from '../../protocol/content/hash-text.ts';
import type { Item } from '../../protocol/item.ts';
import type { CallIdForm } from './dialect.ts';

/**
 * Maps the call ids of a transcript to ids that the provider accepts. An accepted id stays; any other is
 * replaced by one derived from its digest. Ids stay unique, and a call has the same id in every request.
 */
export class WireCallIds {
  readonly #byCallId = new Map<string, string>();

  constructor(transcript: readonly Item[], form: CallIdForm | undefined) {
    if (!form) return;
    const callIds: string[] = [];
    for (const item of transcript) if (item.type === 'tool_call') callIds.push(item.callId);
    if (callIds.every(form.fits)) return;
    const taken = new Set(callIds.filter(form.fits));
    for (const callId of callIds) {
      if (form.fits(callId) || this.#byCallId.has(callId)) continue;
      let made = form.make(digestOf(callId));
      for (let again = 1; taken.has(made); again += 1) made = form.make(digestOf(`${callId} ${again}`));
      taken.add(made);
      this.#byCallId.set(callId, made);
    }
  }

  /** Returns the id of a call in the request. */
  of(callId: string): string {
    return this.#byCallId.get(callId) ?? callId;
  }
}

function digestOf(text: string): string {
  return hashText(text);
}
