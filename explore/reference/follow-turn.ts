import type { Step } from '../../machines/step.ts';
import type { ChartEvent, QualifiedCall } from '../../protocol/event.ts';
import { costOf } from '../../protocol/listing/cost.ts';
import { change, countFailure, find } from './reference-calls.ts';
import type { ReferenceCall, ReferenceModel } from './reference-model.ts';

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/** Applies a completed turn: its items, its calls with their status by the rules, and its cost. */
export function followTurn(
  reference: ReferenceModel,
  event: Of<'turn.completed'>,
  step: Step,
): ReferenceModel {
  const { config, spending, final, closing } = reference;
  const { finishReason, calls, usage } = event;
  const latest = { from: reference.transcript.length, calls: calls.length };
  const model = config.models[step.state.context.turn.model]?.model ?? '';
  const counted: ReferenceModel = {
    ...reference,
    latest,
    shown: false,
    unfinished: false,
    closing: closing === 'begun' ? 'over' : closing,
    spending: {
      ...spending,
      turns: spending.turns + 1,
      tokens: spending.tokens + (usage === null ? 0 : usage.inputTokens + usage.outputTokens),
      cost: spending.cost + costOf(usage, model, config.prices),
      activeMs: spending.activeMs + Math.max(0, event.at - event.startedAt),
    },
  };
  const isStopped = finishReason === 'pause' || finishReason === 'content_filter';
  if (config.finalAnswer === 'separate' && !final && calls.length === 0 && !isStopped) return counted;
  const read = {
    ...counted,
    transcript: [...counted.transcript, ...event.items],
    continuation: event.continuation?.token ?? null,
  };
  const isCutOff = finishReason === 'length' || finishReason === 'content_filter';
  return admit(read, calls, { refusesAll: final || isCutOff });
}

/** Decides which of a turn's calls may run. Calls refused for other reasons do not count as tool calls. */
function admit(
  reference: ReferenceModel,
  calls: readonly QualifiedCall[],
  { refusesAll = false } = {},
): ReferenceModel {
  let { toolCalls, denied } = reference.spending;
  const admitted = calls.map((call): ReferenceCall => {
    const known = find(reference, call.callId);
    if (known !== undefined) return known;
    const { input, digest } = call;
    const entry = { call, input, digest, approved: false, starts: 0, mayStart: true, result: null };
    if (refusesAll || call.error !== undefined) return { ...entry, stage: 'settled' };
    if (call.executedBy === 'engine') {
      if (toolCalls >= reference.config.limits.toolCalls) {
        denied += 1;
        return { ...entry, stage: 'settled', deniedFor: 'toolCalls' };
      }
      toolCalls += 1;
    }
    const rule = reference.sticky.find(({ tool }) => tool === call.name)?.decision;
    if (call.gate && rule === 'reject') return { ...entry, stage: 'settled' };
    if (call.gate && rule === undefined) return { ...entry, stage: 'gated' };
    return { ...entry, approved: call.gate, stage: call.executedBy === 'client' ? 'waiting' : 'ready' };
  });
  const failed = refusesAll ? [] : calls.filter(({ error }) => error !== undefined);
  const spending = { ...reference.spending, toolCalls, denied };
  const opened: ReferenceModel = { ...reference, calls: admitted, spending };
  return failed.reduce((state, { digest }) => countFailure(state, digest, { failed: true }), opened);
}

/** Applies an edit of the transcript: its items, and the calls that it keeps or adds. */
export function followEdit(reference: ReferenceModel, event: Of<'transcript.edited'>): ReferenceModel {
  const { items, calls, results = [] } = event;
  const ids = new Set(calls.map(({ callId }) => callId));
  const place = items.findLastIndex(item => item.type === 'tool_call' && ids.has(item.callId)) + 1;
  const outcomes = new Map(results.map(result => [result.callId, result]));
  const kept = calls.flatMap((call): ReferenceCall[] => {
    const { callId, input, digest } = call;
    const result = outcomes.get(callId);
    const entry = { call, input, digest, approved: false, starts: 0, mayStart: true };
    if (result !== undefined) return [{ ...entry, stage: 'settled', result }];
    const known = find(reference, callId);
    return known?.digest === digest ? [known] : [];
  });
  const present = new Set(items.map(item => JSON.stringify(item)));
  const edited: ReferenceModel = {
    ...reference,
    transcript: items,
    messages: [
      ...reference.messages.filter(item => present.has(JSON.stringify(item))),
      ...reference.inbox,
    ].filter((item, index, all) => all.indexOf(item) === index),
    calls: kept,
    latest: null,
    resultsAt: place === 0 || place === items.length ? null : place,
    shown: false,
    unfinished: false,
    continuation: null,
  };
  return admit(edited, calls);
}

/** Applies an edit of the latest turn. Calls that it replaces no longer count. */
export function followTurnEdit(reference: ReferenceModel, event: Of<'turn.edited'>): ReferenceModel {
  const { latest, config, final, spending, transcript } = reference;
  if (latest === null) return reference;
  const { calls, items } = event;
  const kept = calls.flatMap(({ callId, digest }) => {
    const known = find(reference, callId);
    return known?.digest === digest ? [known] : [];
  });
  const dropped = reference.calls.filter(
    entry => !kept.includes(entry) && entry.stage !== 'settled' && entry.call.executedBy === 'engine',
  );
  const isDraft = config.finalAnswer === 'separate' && !final && calls.length === 0;
  const edited: ReferenceModel = {
    ...reference,
    transcript: [...transcript.slice(0, latest.from), ...(isDraft ? [] : items)],
    calls: kept,
    latest: { ...latest, calls: calls.length },
    resultsAt: null,
    continuation: null,
    spending: { ...spending, toolCalls: spending.toolCalls - dropped.length },
  };
  return admit(edited, calls);
}

/** Applies an edit of a call that has not started: it needs an approval again, unless a sticky rule gives it. */
export function followCallEdit(
  reference: ReferenceModel,
  { callId, call }: Of<'call.edited'>,
): ReferenceModel {
  const isAllowed = reference.sticky.some(
    ({ tool, decision }) => tool === call.name && decision === 'approve',
  );
  const stage = call.executedBy === 'client' ? 'waiting' : 'ready';
  const { input, digest } = call;
  return change(reference, callId, {
    call,
    input,
    digest,
    approved: call.gate && isAllowed,
    stage: call.gate && !isAllowed ? 'gated' : stage,
  });
}
