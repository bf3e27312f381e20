import type { Context } from '../../machines/context.ts';
import { toJson } from '../../protocol/json.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { Usage } from '../../protocol/turn.ts';
import { describeError } from '../../server/error-envelope.ts';
import type { AgUiEvent, Message, TokenUsage } from './events.ts';
import { interruptsOf } from './interrupts.ts';
import type { SharedState } from './shared-state.ts';

/** Sums the model calls of one request by provider and model. */
export class UsageSum {
  readonly #sums = new Map<string, TokenUsage>();

  /** Adds a model call. `usage` is `null` if the provider did not report it. */
  add(provider: string, model: string, usage: Usage | null): void {
    if (usage === null) return;
    const key = `${provider} ${model}`;
    const sum: TokenUsage = this.#sums.get(key) ?? { provider, model };
    const counts = {
      inputTokens: usage.inputTokens,
      outputTokens: usage.outputTokens,
      totalTokens: usage.inputTokens + usage.outputTokens,
      reasoningTokens: usage.reasoningTokens,
      cachedInputTokens: usage.cachedInputTokens,
      cacheWriteInputTokens: usage.cacheWriteTokens,
    };
    for (const [name, count] of Object.entries(counts) as [keyof typeof counts, number | null][])
      if (count !== null) sum[name] = (sum[name] ?? 0) + count;
    this.#sums.set(key, sum);
  }

  /** The member `usage` of the final event; absent without a model call. */
  get member(): { usage?: TokenUsage[] } {
    return this.#sums.size === 0 ? {} : { usage: [...this.#sums.values()] };
  }
}

type Ending = {
  threadId: string;
  runId: string;
  settled: Settled;
  context: Readonly<Context>;
  shared: SharedState;
  messages: readonly Message[];
  usage: UsageSum;
  /** Whether the client of this request runs the tool. */
  isDeclared(tool: string): boolean;
};

/** Returns the final events of a request, once its run rests or has ended. */
export function finishRun({ settled, context, shared, messages, usage, ...ending }: Ending): AgUiEvent[] {
  const { threadId, runId, isDeclared } = ending;
  const ends = shared.finish();
  const finished = { type: 'RUN_FINISHED', threadId, runId, ...usage.member } as const;
  switch (settled.status) {
    case 'finished': {
      const { usage: _, turns: __, ...result } = settled;
      return [...ends, { ...finished, result: toJson(result), outcome: { type: 'success' } }];
    }
    case 'cancelled':
      return [...ends, { ...finished, outcome: { type: 'cancelled' } }];
    case 'failed':
      return [...ends, { type: 'RUN_ERROR', ...settled.error, ...usage.member }];
    case 'waiting': {
      const own = settled.open.filter(open => open.kind === 'result').filter(({ name }) => isDeclared(name));
      const others = settled.open.filter(open => own.every(({ id }) => id !== open.id));
      if (own.length > 0 && others.length === 0) {
        const pendingToolCallIds = own.map(({ callId }) => callId);
        return [...ends, { ...finished, outcome: { type: 'success', pendingToolCallIds } }];
      }
      const interrupts = interruptsOf(context.runId, { ...settled, open: others });
      return [
        { type: 'MESSAGES_SNAPSHOT', messages: [...messages] },
        ...ends,
        { ...finished, outcome: { type: 'interrupt', interrupts } },
      ];
    }
  }
}

/** Returns the RUN_ERROR event for an error that ended the request, without internal details. */
export function errorEvent(error: unknown): AgUiEvent {
  const { code, message } = describeError(error).envelope.error;
  return { type: 'RUN_ERROR', message, code };
}
