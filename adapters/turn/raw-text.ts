// What adapters share whose server has no chat layer: finding tags in the text of a reply, and finish reasons.

import type { FinishReason } from '../../protocol/turn.ts';

export type TagPiece = { text: string } | { tag: string };

/** Finds tags, which begin with `<`, in a text, however it is split. Holds back only what may begin a tag. */
export class TagScanner {
  readonly #tags: readonly string[];
  readonly #longest: number;
  #held = '';

  constructor(tags: readonly string[]) {
    this.#tags = tags;
    this.#longest = Math.max(0, ...tags.map(tag => tag.length));
  }

  push(text: string): TagPiece[] {
    const buffer = this.#held + text;
    const pieces: TagPiece[] = [];
    let begin = 0;
    let at = this.#tags.length === 0 ? -1 : buffer.indexOf('<');
    while (at !== -1) {
      const head = buffer.slice(at, at + this.#longest);
      const tag = this.#tags.find(candidate => head.startsWith(candidate));
      if (tag !== undefined) {
        if (at > begin) pieces.push({ text: buffer.slice(begin, at) });
        pieces.push({ tag });
        begin = at + tag.length;
      } else if (this.#tags.some(candidate => candidate.startsWith(head))) break;
      at = buffer.indexOf('<', Math.max(begin, at + 1));
    }
    const end = at === -1 ? buffer.length : at;
    if (end > begin) pieces.push({ text: buffer.slice(begin, end) });
    this.#held = buffer.slice(end);
    return pieces;
  }

  end(): TagPiece[] {
    const text = this.#held;
    this.#held = '';
    return text === '' ? [] : [{ text }];
  }
}

/** Converts the finish reason of a server that knows only tokens: it reports `stop` also for calls. */
export function rawFinishReason(finish: string, { hasCalls }: { hasCalls: boolean }): FinishReason {
  if (finish === 'length') return 'length';
  if (finish === 'abort') return 'error';
  if (hasCalls) return 'tool_calls';
  return finish === 'stop' ? 'stop' : 'unknown';
}
