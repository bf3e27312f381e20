import { type Host, systemHost } from '../../engine/driver/host.ts';
import { KEEP_ALIVE_COMMENT, streamedBody } from '../../engine/run/readers/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { FamilyStory } from '../../engine/story/family-story.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { Usage } from '../../protocol/turn.ts';
import { describeError } from '../../server/error-envelope.ts';
import { filterText } from '../../text/text-filter.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import { storyAgentOf } from '../../tools/agent/sub-agents.ts';
import type { AgUiEvent, Message, TokenUsage } from './events.ts';
import { interruptsOf } from './interrupts.ts';
import type { InputMessage, RunInput } from './run-input.ts';
import { SharedState } from './shared-state.ts';
import { Thread } from './thread.ts';
import { StoryWriter } from './write-story.ts';

/** An answer that the run refused: another caller decided first, or the answer is invalid. */
export type Refused = { interruptId: string; code: string; message: string; by?: string };

/**
 * The content that a request streams: the run to follow, and what the client already has. Without a run, the thread is
 * empty.
 */
export type Plan = {
  agent: Agent;
  run: Run | undefined;
  /** The messages of the thread's earlier runs. */
  earlier: readonly Message[];
  /** By run id: the seq up to which the client may already have the run. */
  seen: ReadonlyMap<string, number>;
  /** The messages of this request that are new to the thread. */
  fresh: readonly InputMessage[];
  refused: readonly Refused[];
};

/** Returns a response body: the events of the plan's run as server-sent events, at the reader's pace. */
export function streamRun(
  input: RunInput,
  plan: () => Promise<Plan>,
  host: Host,
): ReadableStream<Uint8Array> {
  const stop = new AbortController();
  return streamedBody(eventsOf(input, plan, stop.signal), {
    frame,
    keepAlive: { text: KEEP_ALIVE_COMMENT, host },
    failed: error => frame([errorEvent(error)]),
    leave: () => stop.abort(),
  });
}

function frame(events: readonly AgUiEvent[]): string {
  return events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('');
}

/** Returns the RUN_ERROR event for an error that ended the request, without internal details. */
function errorEvent(error: unknown): AgUiEvent {
  const { code, message } = describeError(error).envelope.error;
  return { type: 'RUN_ERROR', message, code };
}

async function* eventsOf(
  input: RunInput,
  makePlan: () => Promise<Plan>,
  signal: AbortSignal,
): AsyncGenerator<AgUiEvent[], void> {
  const { threadId, runId, parentRunId } = input;
  yield [
    {
      type: 'RUN_STARTED',
      threadId,
      runId,
      protocolVersion: '1.0',
      ...omitUndefined({ parentRunId }),
    },
  ];
  const plan = await makePlan();
  if (plan.run === undefined) yield [{ type: 'RUN_FINISHED', threadId, runId, outcome: { type: 'success' } }];
  else yield* followPlan(input, { ...plan, run: plan.run }, signal);
}

/** The story of a run of this agent, with those of its sub-agents. */
export function familyOf(agent: Agent, runId: string): FamilyStory {
  const { store, options } = agent;
  return new FamilyStory({ store, host: options.host ?? systemHost, runId, agent: storyAgentOf(agent) });
}

async function* followPlan(
  input: RunInput,
  { agent, run, earlier, seen, fresh, refused }: Plan & { run: Run },
  signal: AbortSignal,
): AsyncGenerator<AgUiEvent[], void> {
  const thread = new Thread(earlier);
  const writer = new StoryWriter(run.id, thread);
  const family = familyOf(agent, run.id);
  for await (const told of family.read(seen)) for (const event of told) writer.add(event);
  const shared = new SharedState(input.state, text => filterText(text, agent.options.textFilters ?? []));
  const refusals = refused.map(one => ({ type: 'CUSTOM' as const, name: 'agentchart.refused', value: one }));
  yield [...thread.meet(input, fresh), ...shared.update(family.state), ...refusals];
  if (signal.aborted) return;
  const settling = run.settled();
  const open = (runId: string) => agent.open(runId);
  const story = family.follow({ run, open, follow: true, settled: () => settling });
  signal.addEventListener('abort', () => void story.return(undefined), { once: true });
  const usage = new UsageSum();
  for await (const told of story) {
    const events = told.flatMap(event => {
      if (event.type === 'turn.closed') usage.add(event.completed);
      return writer.write(event);
    });
    yield [...events, ...shared.update(family.state)];
  }
  if (signal.aborted) return;
  const settled = await settling;
  const interrupts = settled.status === 'waiting' ? interruptsOf(run.id, settled) : [];
  const idsOf = (child: string) =>
    interrupts.filter(({ subagentRunId }) => subagentRunId === child).map(({ id }) => id);
  yield [
    ...writer.end(idsOf),
    ...endOf(input, settled, { runId: run.id, thread, shared, usage: usage.member }),
  ];
}

type Ending = { runId: string; thread: Thread; shared: SharedState; usage: { usage?: TokenUsage[] } };

/** Returns the final events of a request, once its run rests or has ended. */
function endOf(input: RunInput, settled: Settled, { thread, shared, usage, ...run }: Ending): AgUiEvent[] {
  const { threadId, runId, tools } = input;
  const ends = shared.finish();
  const finished = { type: 'RUN_FINISHED', threadId, runId, ...usage } as const;
  switch (settled.status) {
    case 'finished': {
      const { usage: _, turns: __, ...result } = settled;
      return [...ends, { ...finished, result: toJson(result), outcome: { type: 'success' } }];
    }
    case 'cancelled':
      return [...ends, { ...finished, outcome: { type: 'cancelled' } }];
    case 'failed':
      return [...ends, { type: 'RUN_ERROR', ...settled.error, ...usage }];
    case 'waiting': {
      const own = settled.open.flatMap(open =>
        open.kind === 'result' && tools.some(({ name }) => name === open.name) ? [open] : [],
      );
      const others = settled.open.filter(open => own.every(({ id }) => id !== open.id));
      if (own.length > 0 && others.length === 0) {
        const pendingToolCallIds = own.map(({ callId }) => callId);
        return [...ends, { ...finished, outcome: { type: 'success', pendingToolCallIds } }];
      }
      const interrupts = interruptsOf(run.runId, { ...settled, open: others });
      return [
        { type: 'MESSAGES_SNAPSHOT', messages: thread.list },
        ...ends,
        { ...finished, outcome: { type: 'interrupt', interrupts } },
      ];
    }
  }
}

/** Sums the model calls of one request by provider and model. */
class UsageSum {
  readonly #sums = new Map<string, TokenUsage>();

  /** Adds a model call. `usage` is `null` if the provider did not report it. */
  add({ provider, model, usage }: { provider: string; model: string; usage: Usage | null }): void {
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
