import type { Context } from '../../machines/context.ts';
import type { RunParams } from '../../protocol/config.ts';
import type { Item, ToolResultItem } from '../../protocol/item.ts';
import type { CompletedTurn } from './runner-turn.ts';

/** The turn the loop body is looking at, and what it did to it. */
export class CurrentTurn {
  /** `undefined` when the turn gave no reply. */
  readonly completed: Promise<CompletedTurn | undefined>;
  edit: readonly Item[] | undefined;
  params: RunParams | undefined;
  response: Promise<ToolResultItem[] | null> | undefined;
  readonly #asked: readonly Item[];
  #reply: CompletedTurn | undefined;

  /** `before`: the run's context when the turn was asked for, or after it. */
  constructor({ transcript, inbox }: Context, completed: Promise<CompletedTurn | undefined>) {
    this.#asked = [...transcript, ...inbox];
    this.completed = completed.then(reply => {
      this.#reply = reply;
      return reply;
    });
    this.completed.catch(() => {});
  }

  /** The transcript as the body has it: without the reply, unless the body put it there. */
  messages({ transcript }: Context): readonly Item[] {
    if (this.edit !== undefined) return this.edit;
    const first = this.#reply?.items[0]?.id;
    if (first === undefined) return this.#asked;
    const place = transcript.findIndex(item => item.id === first);
    return place === -1 ? transcript : transcript.slice(0, place);
  }
}
