import type { Delta } from '../../../protocol/effect.ts';
import type { ContentChunk } from '../chunk.ts';
import type { TurnPart } from './turn-parts.ts';

type CallDelta = Extract<Delta, { type: 'call.delta' }>;
type Streamed = { type: 'text' | 'reasoning'; id: string; text: string; isOpen: boolean };

/**
 * Writes the steps of one message. A step is one turn. Its streamed output is compared with the completed turn, which
 * is sent again if they differ.
 */
export class StepWriter {
  readonly #emit: (chunk: ContentChunk) => void;
  /** The turn whose step is open; 0 without one. */
  #turn = 0;
  #attempt = 0;
  /** The number of steps so far. */
  step = 0;
  #streamed: Streamed[] = [];
  /** The ids of the calls whose arguments are streaming, by index. */
  readonly #calls = new Map<number, string>();
  #ids = 0;
  #completed = 0;

  constructor(emit: (chunk: ContentChunk) => void) {
    this.#emit = emit;
  }

  /** Writes streamed text or reasoning. */
  write(
    type: 'text' | 'reasoning',
    { turn, attempt, text }: { turn: number; attempt: number; text: string },
  ): void {
    if (!this.#open(turn, attempt) || text === '') return;
    let last = this.#streamed.at(-1);
    if (last === undefined || last.type !== type || !last.isOpen) last = this.#begin(type);
    last.text += text;
    this.#emit({ type: `${type}-delta`, id: last.id, delta: text });
  }

  /** Writes streamed arguments of a call, if its id is known. */
  writeCall({ turn, attempt, index, callId, name, text }: CallDelta): void {
    if (!this.#open(turn, attempt)) return;
    if (callId !== undefined && name !== undefined && !this.#calls.has(index)) {
      this.#close();
      this.#calls.set(index, callId);
      this.#emit({ type: 'tool-input-start', toolCallId: callId, toolName: name });
    }
    const toolCallId = this.#calls.get(index);
    if (toolCallId !== undefined && text !== '')
      this.#emit({ type: 'tool-input-delta', toolCallId, inputTextDelta: text });
  }

  /** Drops the streamed output of an incomplete turn. */
  discard(): void {
    if (this.#turn > this.#completed) this.#reset();
  }

  /** Writes the parts of a completed turn. */
  complete(turn: number, parts: readonly TurnPart[]): void {
    if (parts.length > 0) this.#open(turn, this.#attempt);
    this.#completed = turn;
    if (parts.length === 0 && this.#turn !== turn) return;
    if (!this.#isBeginningOf(parts)) this.#reset();
    this.#writeParts(parts);
  }

  /** Replaces the parts of the last step. */
  replace(parts: readonly TurnPart[]): void {
    this.#reset();
    this.#writeParts(parts);
  }

  /** Ends the step. */
  end(): void {
    this.#close();
    if (this.#turn > 0) this.#emit({ type: 'finish-step' });
    this.#turn = 0;
  }

  /** Begins the step of a turn. Returns false for a delta of a turn that is already complete. */
  #open(turn: number, attempt: number): boolean {
    if (turn <= this.#completed) return false;
    if (turn !== this.#turn) {
      this.end();
      this.#turn = turn;
      this.#attempt = attempt;
      this.#forget();
      this.step += 1;
      this.#emit({ type: 'start-step' });
    } else if (attempt > this.#attempt) {
      this.#reset();
      this.#attempt = attempt;
    }
    return true;
  }

  #reset(): void {
    const isEmpty = this.#streamed.length === 0 && this.#calls.size === 0 && this.#completed < this.#turn;
    this.#forget();
    if (!isEmpty) this.#emit({ type: 'reset-step' });
  }

  #forget(): void {
    this.#streamed = [];
    this.#calls.clear();
    this.#ids = 0;
  }

  #begin(type: 'text' | 'reasoning'): Streamed {
    this.#close();
    this.#ids += 1;
    const begun = { type, id: `${this.#turn}-${this.#ids}`, text: '', isOpen: true };
    this.#streamed.push(begun);
    this.#emit({ type: `${type}-start`, id: begun.id });
    return begun;
  }

  #close(): void {
    for (const part of this.#streamed) {
      if (part.isOpen) this.#emit({ type: `${part.type}-end`, id: part.id });
      part.isOpen = false;
    }
  }

  /** Whether the streamed texts are a prefix of the turn's parts. */
  #isBeginningOf(parts: readonly TurnPart[]): boolean {
    const texts = parts.slice(0, this.#streamed.length);
    const calls = parts.flatMap(part => (part.type === 'call' ? [part.call.callId] : []));
    const ids = [...this.#calls.entries()].toSorted(([one], [other]) => one - other).map(([, id]) => id);
    if (ids.length > 0 && texts.length < this.#streamed.length) return false;
    return (
      this.#streamed.every((streamed, index) => {
        const part = texts[index];
        const isLast = index === this.#streamed.length - 1;
        if (part === undefined || part.type !== streamed.type) return false;
        return (
          part.text === streamed.text || (isLast && streamed.isOpen && part.text.startsWith(streamed.text))
        );
      }) &&
      ids.every((id, index) => calls[index] === id) &&
      (ids.length === 0 || parts.slice(this.#streamed.length).every(({ type }) => type === 'call'))
    );
  }

  #writeParts(parts: readonly TurnPart[]): void {
    for (const [index, part] of parts.entries()) {
      switch (part.type) {
        case 'text':
        case 'reasoning':
          this.#finishText(part, this.#streamed[index]);
          break;
        case 'chunks':
          this.#close();
          for (const chunk of part.chunks) this.#emit(chunk);
          break;
        case 'call': {
          this.#close();
          const { callId, name, input, error } = part.call;
          const call = { toolCallId: callId, toolName: name, input };
          if (error === undefined) this.#emit({ type: 'tool-input-available', ...call });
          else this.#emit({ type: 'tool-input-error', ...call, errorText: error });
          break;
        }
      }
    }
    this.#close();
  }

  #finishText(
    { type, text }: { type: 'text' | 'reasoning'; text: string },
    known: Streamed | undefined,
  ): void {
    const streamed = known ?? this.#begin(type);
    const rest = text.slice(streamed.text.length);
    streamed.text = text;
    if (rest !== '') this.#emit({ type: `${type}-delta`, id: streamed.id, delta: rest });
    if (streamed.isOpen) this.#emit({ type: `${type}-end`, id: streamed.id });
    streamed.isOpen = false;
  }
}
