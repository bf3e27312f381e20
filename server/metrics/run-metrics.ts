import { loadRun } from '../../engine/journal/load-run.ts';
import { countFollowedRuns, countWaits } from '../../engine/listening/feed-follower.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { Counter, Durations, describeFamily } from './prometheus.ts';

/** The number of feed pages that one request reads; the next request continues after them. */
const MOST_PAGES = 20;
const PAGE = 1_000;

const MOST_OPEN = 10_000;

/** Since this server started, of all processes. Labels hold nothing that a user, a model or a tool wrote. */
export class RunMetrics {
  readonly #store: Store;
  readonly #calls = new Map<string, number>();
  readonly #modelSeconds = new Durations();
  readonly #toolSeconds = new Durations();
  readonly #tokens = new Counter();
  readonly #doubts = new Counter();
  #cursor: Promise<string | undefined>;
  #reading: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
    this.#cursor = this.#begin();
  }

  async describe(): Promise<string> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    const [counts, waiting] = await Promise.all([
      countFollowedRuns(this.#store),
      countWaits(this.#store),
      this.#reading,
    ]);
    const lines = [
      describeFamily(
        'agentchart_runs',
        'gauge',
        'Runs by status.',
        Object.entries(counts).map(([status, count]) => [{ status }, count]),
      ),
      describeFamily(
        'agentchart_decisions_waiting',
        'gauge',
        'Calls and reviews that wait for a person or a client.',
        Object.entries(waiting).map(([type, count]) => [{ type }, count]),
      ),
      this.#modelSeconds.describe('agentchart_model_call_duration_seconds', 'Durations of model calls.'),
      this.#toolSeconds.describe('agentchart_tool_call_duration_seconds', 'Durations of tool calls.'),
      this.#tokens.describe('agentchart_tokens_total', 'Tokens of model calls.'),
      this.#doubts.describe('agentchart_doubts_total', 'Calls that were in doubt.'),
    ];
    return `${lines.flat().join('\n')}\n`;
  }

  async #begin(): Promise<string | undefined> {
    return await this.#store.feed?.end().catch(() => undefined);
  }

  async #read(): Promise<void> {
    const { feed } = this.#store;
    let cursor = await this.#cursor;
    if (cursor === undefined) this.#cursor = this.#begin();
    for (let pages = 0; feed !== undefined && cursor !== undefined && pages < MOST_PAGES; pages += 1) {
      const page = await feed.read({ after: cursor, limit: PAGE, onDamaged: () => {} });
      for (const { runId, event } of page.entries) {
        this.#take(runId, event);
        if (event.type === 'tool.interrupted' && (await this.#isDoubt(runId, event.callId)))
          this.#doubts.add({}, 1);
      }
      const isEnd = page.next === cursor;
      cursor = page.next;
      this.#cursor = Promise.resolve(cursor);
      if (isEnd) return;
    }
  }

  #take(runId: string, event: RunEvent): void {
    switch (event.type) {
      case 'turn.completed': {
        const { provider, model, usage } = event;
        this.#modelSeconds.add({ provider, model, outcome: 'completed' }, event.at - event.startedAt);
        if (usage === null) return;
        this.#tokens.add({ provider, model, type: 'input' }, usage.inputTokens);
        this.#tokens.add({ provider, model, type: 'output' }, usage.outputTokens);
        return;
      }
      case 'turn.failed': {
        const { provider = 'unknown', model = 'unknown' } = event.error;
        return this.#modelSeconds.add({ provider, model, outcome: 'failed' }, event.at - event.startedAt);
      }
      case 'tool.started':
        if (this.#calls.size < MOST_OPEN) this.#calls.set(`${runId}:${event.callId}`, event.at);
        return;
      case 'tool.settled':
        return this.#endCall(runId, event, event.isError ? 'failed' : 'completed');
      case 'tool.doubted':
        this.#doubts.add({}, 1);
        return this.#endCall(runId, event, 'unknown');
      case 'tool.interrupted':
        return this.#endCall(runId, event, 'unknown');
      case 'tool.suspended':
        return this.#endCall(runId, event, 'suspended');
      default:
    }
  }

  /** Whether an interrupted call is in doubt: then it neither runs again nor is reconciled. */
  async #isDoubt(runId: string, callId: string): Promise<boolean> {
    const loaded = await loadRun(this.#store, runId).catch(() => null);
    const call = loaded?.state.context.calls.find(other => other.callId === callId);
    return call?.sideEffect === 'once' && !call.reconcilable;
  }

  #endCall(runId: string, { callId, at }: { callId: string; at: number }, outcome: string): void {
    const key = `${runId}:${callId}`;
    const startedAt = this.#calls.get(key);
    if (startedAt !== undefined) this.#toolSeconds.add({ outcome }, at - startedAt);
    this.#calls.delete(key);
  }
}
