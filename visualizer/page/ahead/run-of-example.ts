import { chartIdentity } from '../../../machines/snapshot.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import type { Example } from '../app/played.ts';
import type { EmbeddedRun } from '../data/embedded-source.ts';
import type { RunView, StreamedEvent } from '../data/request.ts';
import { Folded } from '../model/journal-fold.ts';

/** Returns the path as a run. */
export function runOf({ past, path, of: title }: Example): EmbeddedRun {
  const [first] = past.length === 0 ? path.map(({ event }) => event) : past;
  const runId = first?.type === 'run.started' ? first.runId : 'run_explored';
  const entries = [
    ...past,
    ...path.map(({ event }, index) => ({ ...event, runId, seq: past.length + index + 1 }) as StreamedEvent),
  ];
  const folded = entries.reduce((before, event) => before.take(event.seq, event), Folded.start);
  const { context } = folded;
  const usage = context?.usage ?? null;
  const state = folded.path ?? '';
  const view: RunView = {
    runId,
    title,
    state,
    agent: context?.agent.name ?? '',
    seq: entries.length,
    status: state === 'finished' || state === 'failed' || state === 'cancelled' ? state : 'waiting',
    settled: null,
    open: [],
    calls: [],
    driver: null,
    transcript: [],
    createdAt: context?.startedAt ?? 0,
    updatedAt: context?.now ?? 0,
    labels: {},
    availableAgent: true,
    turns: context?.turns ?? 0,
    toolCalls: context?.toolCalls ?? 0,
    usage,
    tokens: usage === null ? 0 : usage.inputTokens + usage.outputTokens,
    cost: context?.cost ?? 0,
    activeMs: context?.activeMs ?? 0,
    limits: context?.config.limits ?? { turns: Infinity, toolCalls: Infinity },
    paused: context?.paused ?? false,
    next: context?.next ?? null,
    chart: chartIdentity(),
  };
  return { view, entries };
}

/** Returns the events that the chart takes, without what the stream adds. */
export function chartEvents(entries: readonly StreamedEvent[]): (RunStarted | ChartEvent)[] {
  return entries.flatMap(({ seq: _, runId, ...event }): (RunStarted | ChartEvent)[] => {
    switch (event.type) {
      case 'run.claimed':
      case 'run.noted':
      case 'run.redacted':
      case 'tool.late':
        return [];
      case 'run.started':
        return [{ ...event, runId }];
      default:
        return [event];
    }
  });
}
