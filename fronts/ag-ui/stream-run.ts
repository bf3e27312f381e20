import type { Host } from '../../engine/driver/host.ts';
import { KEEP_ALIVE_COMMENT, streamedBody } from '../../engine/run/readers/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { filterText } from '../../text/text-filter.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import { ClientMessages } from './client-messages.ts';
import type { AgUiEvent } from './events.ts';
import { errorEvent, finishRun, UsageSum } from './finish-run.ts';
import { RunFollower } from './follow-run.ts';
import { interruptsOf } from './interrupts.ts';
import { custom } from './project-run.ts';
import type { InputMessage, RunInput } from './run-input.ts';
import { SharedState } from './shared-state.ts';
import type { ThreadMessages } from './thread-messages.ts';

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
  messages: ThreadMessages;
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

async function* followPlan(
  input: RunInput,
  plan: Plan & { run: Run },
  signal: AbortSignal,
): AsyncGenerator<AgUiEvent[], void> {
  const { agent, run, messages, seen, refused } = plan;
  const follower = new RunFollower({ agent, runId: run.id, messages, seen });
  const usage = new UsageSum();
  signal.addEventListener('abort', () => follower.stop(), { once: true });
  if (signal.aborted) return;
  const shared = new SharedState(input.state, text => filterText(text, agent.options.textFilters ?? []));
  await follower.catchUp();
  const client = new ClientMessages(input, plan.fresh);
  if (client.differsFrom(messages.list)) yield [client.replaceBy(messages.list)];
  const { state } = follower.root;
  if (state !== null) yield shared.update(state);
  if (refused.length > 0) yield refused.map(one => custom('agentchart.refused', { ...one }));
  for await (const events of follower.follow(run, usage)) {
    const shown = events.filter(event => !client.has(event));
    const now = follower.root.state;
    const all = [...shown, ...(now === null ? [] : shared.update(now))];
    if (all.length > 0) yield all;
  }
  if (signal.aborted) return;
  const settled = await run.settled();
  const waiting = settled.status === 'waiting' ? interruptsOf(run.id, settled) : [];
  const idsOf = (child: string) =>
    waiting.filter(({ subagentRunId }) => subagentRunId === child).map(({ id }) => id);
  yield [
    ...follower.endSubAgents(idsOf),
    ...finishRun({
      threadId: input.threadId,
      runId: input.runId,
      settled,
      context: run.context,
      shared,
      usage,
      messages: messages.list,
      isDeclared: tool => input.tools.some(({ name }) => name === tool),
    }),
  ];
}
