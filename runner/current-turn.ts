import type { Context } from '../machines/context.ts';
import type { RunParams } from '../protocol/config.ts';
import type { Item, ToolResultItem } from '../protocol/item.ts';
import type { CompletedTurn } from './runner-turn.ts';

/** The turn that the loop body is processing, and the changes it made. */
export class CurrentTurn {
  /** The completed turn; `undefined` if it gave no reply. */
  readonly completed: Promise<CompletedTurn | undefined>;
  /** The transcript that replaces the run's. */
  edit: readonly Item[] | undefined;
  /** Parameters for the following turns. */
  params: RunParams | undefined;
  /** Results of the turn's calls, once they were requested. */
  response: Promise<ToolResultItem[] | null> | undefined;
  readonly #requested: readonly Item[];
  #reply: CompletedTurn | undefined;

  /** The first argument is the run's context when the turn was requested, or later. */
  constructor({ transcript, inbox }: Context, completed: Promise<CompletedTurn | undefined>) {
    this.#requested = [...transcript, ...inbox];
    this.completed = completed.then(reply => {
      this.#reply = reply;
      return reply;
    });
    this.completed.catch(() => {});
  }

  /** Returns the transcript as the loop body sees it: without the reply, unless the body added it. */
  messages({ transcript }: Context): readonly Item[] {
    if (this.edit !== undefined) return this.edit;
    const first = this.#reply?.items[0]?.id;
    if (first === undefined) return this.#requested;
    const place = transcript.findIndex(item => item.id === first);
    return place === -1 ? transcript : transcript.slice(0, place);
  }
}
