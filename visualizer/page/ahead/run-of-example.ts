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
  const state = folded.path ?? '';
  const hasEnded = state === 'finished' || state === 'failed' || state === 'cancelled';
  const view = {
    runId,
    title,
    state,
    agent: context?.agent.name ?? '',
    seq: entries.length,
    status: hasEnded ? state : 'waiting',
    settled: null,
    calls: [],
    driver: null,
    transcript: [],
    createdAt: context?.startedAt ?? 0,
    updatedAt: context?.now ?? 0,
    labels: {},
    availableAgent: true,
    turns: context?.turns ?? 0,
    toolCalls: context?.toolCalls ?? 0,
    usage: context?.usage ?? null,
    cost: context?.cost ?? 0,
    limits: context?.config.limits ?? {},
    paused: context?.paused ?? false,
    next: context?.next ?? null,
  };
  return { view: view as unknown as RunView, entries };
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
