import { readJournal } from '../../../engine/journal/read-journal.ts';
import type { RunHappening } from '../../../engine/run/run-events.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';
import { isToolChunk, type ToolChunk } from '../chunk.ts';
import { type FoldOptions, RunFold } from './fold-run.ts';

/**
 * Folds a run together with the calls in its sub-agents' runs that need a person's decision. A call's id there is
 * `RUN/CALL`.
 *
 * C1 A sub-agent's calls are shown in the step of the call that waits for it: before that call's result, or at the end.
 * C2 Each chunk is shown once in a message. After the run receives a message, the next assistant message shows the open
 *    calls again.
 */
export class FamilyFold {
  readonly fold: RunFold;
  readonly #store: Store;
  readonly #options: FoldOptions;
  /** The runs that the run's open calls wait for, by call. */
  readonly #waiting = new Map<string, string>();
  /** The number of chunks of each sub-agent's run that the current message already shows. */
  readonly #shown = new Map<string, number>();

  constructor(store: Store, options: FoldOptions, placed?: ConstructorParameters<typeof RunFold>[1]) {
    this.#store = store;
    this.#options = options;
    this.fold = new RunFold(options, placed);
  }

  async take(happening: RunHappening): Promise<void> {
    if (happening.type === 'result.received' || happening.type === 'tool.settled')
      await this.#show(happening.callId);
    this.fold.take(happening);
    if (happening.type === 'tool.suspended') this.#waiting.set(happening.callId, happening.childRunId);
    if (happening.type === 'message.received') this.#shown.clear();
  }

  /** Shows the waiting calls at the end of a response. Returns whether a sub-agent's call waits for an approval. */
  async rest(): Promise<boolean> {
    this.fold.rest();
    const open = await Promise.all([...this.#waiting.keys()].map(callId => this.#show(callId)));
    return isAsked(open.flat());
  }

  /** Shows the calls of the sub-agent that a call waits for. Returns all their chunks. */
  async #show(callId: string): Promise<ToolChunk[]> {
    const childRunId = this.#waiting.get(callId);
    if (childRunId === undefined) return [];
    const messageId = this.#options.messageId(this.fold.current);
    const chunks = await chunksOfChild(this.#store, childRunId, {
      ...this.#options,
      messageId: () => messageId,
    });
    for (const [runId, own] of chunks) {
      this.fold.show(own.slice(this.#shown.get(runId) ?? 0));
      this.#shown.set(runId, own.length);
    }
    return [...chunks.values()].flat();
  }
}

/** Returns the chunks of a sub-agent's run and of the runs below it, by run id. */
async function chunksOfChild(
  store: Store,
  childRunId: string,
  options: FoldOptions,
): Promise<Map<string, ToolChunk[]>> {
  const fold = new RunFold({ ...options, callPrefix: `${childRunId}/` });
  const entries = await readJournal(store, childRunId);
  for (const { seq, event } of entries) fold.take({ ...event, seq, runId: childRunId });
  const chunks = fold.drafts.flatMap(draft =>
    draft.type === 'assistant' ? draft.chunks.map(({ chunk }) => chunk).filter(isToolChunk) : [],
  );
  const asked = new Set(
    chunks.flatMap(chunk => (chunk.type === 'tool-approval-request' ? [chunk.toolCallId] : [])),
  );
  const below = childRunsIn(entries.map(({ event }) => event)).map(id => chunksOfChild(store, id, options));
  const own = chunks.filter(({ toolCallId }) => asked.has(toolCallId));
  return new Map([[childRunId, own], ...(await Promise.all(below)).flatMap(map => [...map])]);
}

/** Returns the runs of sub-agents that a journal's calls waited for, in order. */
function childRunsIn(events: readonly RunEvent[]): string[] {
  return [...new Set(events.flatMap(event => (event.type === 'tool.suspended' ? [event.childRunId] : [])))];
}

/** Whether one of these calls waits for an approval. */
function isAsked(chunks: readonly ToolChunk[]): boolean {
  const last = new Map(chunks.map(chunk => [chunk.toolCallId, chunk.type]));
  return [...last.values()].includes('tool-approval-request');
}
