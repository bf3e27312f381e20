import type { ChartState } from '../../../machines/step.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { Act } from '../outside.ts';

/** The evidence of a run: its journal, its fold, and the external acts of its calls. */
export type Evidence = {
  runId: string;
  state: ChartState;
  events: readonly RunEvent[];
  acts: readonly Act[];
};

/** The tools whose calls need approval. */
const GATED: ReadonlySet<string> = new Set(['refund', 'wire', 'deploy']);

/**
 * The faults of a run's calls: each call must have happened with one key, or have a result that says why it did not;
 * a gated call needs an approval; a sub-agent call is exactly one run.
 */
export function checkCalls(run: Evidence, all: readonly Evidence[]): string[] {
  return run.state.context.transcript.flatMap(item => {
    if (item.type !== 'tool_call') return [];
    const { callId, name } = item;
    // It acts on nothing but the conversation.
    if (name === `transfer_to_${run.state.context.handedBy}`) return [];
    const call = `${callId} of ${run.runId} (${name})`;
    const children = all.filter(({ state: { context } }) => isMadeBy(context.parent, run.runId, callId));
    if (children.length > 1) return [`${call} has ${children.length} runs`];
    if (children.length === 1) return checkAnswer(call, resultOf(callId, run));
    return checkActs(call, callId, name, run);
  });
}

/** The faults of a run's ledger: each `once` call that settled, and was not refused, is in it once. */
export function checkLedger({ runId, events, state }: Evidence): string[] {
  const once = new Set(
    events.flatMap(event =>
      event.type === 'turn.completed'
        ? event.calls.flatMap(({ sideEffect, callId }) => (sideEffect === 'once' ? [callId] : []))
        : [],
    ),
  );
  const settled = new Set(
    events.flatMap(event =>
      'callId' in event && once.has(event.callId) && settles(event) ? [event.callId] : [],
    ),
  );
  const { fresh, counts } = state.context.ledger;
  const counted = Object.values(counts).reduce((sum, count) => sum + count, fresh.length);
  return counted === settled.size
    ? []
    : [`${runId} did ${settled.size} \`once\` calls, and its ledger has ${counted}`];
}

function settles(event: RunEvent): boolean {
  if (event.type === 'approval.decided') return event.decision.type === 'answer';
  if (event.type === 'doubt.resolved') return event.resolution.type !== 'retry';
  return event.type === 'tool.settled' || event.type === 'result.received';
}

type Parent = { runId: string; callId: string } | null;

function isMadeBy(parent: Parent, runId: string, callId: string): boolean {
  return parent?.runId === runId && parent.callId === callId;
}

function checkAnswer(call: string, result: Result | undefined): string[] {
  return result?.isError === false ? [] : [`${call} has a run, and the result ${JSON.stringify(result)}`];
}

function checkActs(call: string, callId: string, name: string, { events, acts, ...run }: Evidence): string[] {
  const happened = acts.filter(act => act.callId === callId);
  const keys = new Set(happened.map(({ key }) => key));
  const result = resultOf(callId, { events, acts, ...run });
  const said = verdictsOn(callId, events);
  const isBlocked = said.includes('block') || said.includes('stop');
  if (happened.length === 0) {
    if (isBlocked || isExcused(callId, events, result)) return [];
    return [`${call} never happened, and its result is ${JSON.stringify(result)}`];
  }
  const started = events.some(event => event.type === 'tool.started' && event.callId === callId);
  return [
    ...(keys.size > 1 ? [`${call} happened with the keys ${[...keys].join(', ')}`] : []),
    ...(isBlocked ? [`${call} happened although a rule blocked it`] : []),
    ...((GATED.has(name) || said.includes('ask')) && !isAllowed(callId, name, events)
      ? [`${call} happened and nobody allowed it`]
      : []),
    ...(started ? [] : [`${call} happened and the journal does not say that it was started`]),
  ];
}

/** What the rules that are enforced said of the call, with its turn and right before its start. */
function verdictsOn(callId: string, events: readonly RunEvent[]): string[] {
  const judged = events.flatMap(event => {
    if (event.type === 'call.judged') return event.callId === callId ? event.verdicts : [];
    if (event.type !== 'turn.completed') return [];
    return event.calls.find(call => call.callId === callId)?.verdicts ?? [];
  });
  return judged.flatMap(({ verdict, shadow }) => (shadow === true ? [] : [verdict]));
}

function isAllowed(callId: string, name: string, events: readonly RunEvent[]): boolean {
  return events.some(
    event =>
      event.type === 'approval.decided' &&
      event.decision.type === 'approve' &&
      (event.callId === callId || (event.sticky === true && nameOf(event.callId, events) === name)),
  );
}

function nameOf(callId: string, events: readonly RunEvent[]): string | undefined {
  for (const event of events) {
    const call = event.type === 'turn.completed' && event.calls.find(made => made.callId === callId);
    if (call) return call.name;
  }
  return undefined;
}

/** Whether a person resolved or refused the call, a client ran it, or a message or a limit replaced it. */
function isExcused(callId: string, events: readonly RunEvent[], result: Result | undefined): boolean {
  const isHandled = events.some(event => {
    if (!('callId' in event) || event.callId !== callId) return false;
    if (event.type === 'approval.decided') return event.decision.type !== 'approve';
    if (event.type === 'doubt.resolved') return event.resolution.type === 'failed';
    return event.type === 'result.received';
  });
  return isHandled || (result?.isError === true && /superseded|[Ll]imit/.test(JSON.stringify(result.output)));
}

type Result = Extract<Item, { type: 'tool_result' }>;

export function resultOf(callId: string, { state }: Evidence): Result | undefined {
  return state.context.transcript.find(
    (item): item is Result => item.type === 'tool_result' && item.callId === callId,
  );
}
