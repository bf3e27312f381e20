import { useMemo } from 'preact/hooks';
import { chartIdentity } from '../../../machines/snapshot.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import { formatBreachTest } from '../../breach-test.ts';
import type { Example } from '../app/played.ts';
import { type EmbeddedRun, playedSource } from '../data/embedded-source.ts';
import type { RunView, StreamedEvent } from '../data/request.ts';
import { Folded } from '../model/journal-fold.ts';
import { formatCount } from '../render/format.ts';
import { RunPane as RunPanes } from '../run/run-view.tsx';
import { Button } from '../ui/button.tsx';
import { saveFile } from '../ui/save-file.ts';
import { Safe } from '../ui/text.tsx';

export function ExampleView({ example }: { example: Example }) {
  const run = useMemo(() => runOf(example), [example]);
  const source = useMemo(() => playedSource(run), [run]);
  const { title, message, path, invariant } = example;
  return (
    <div class="example">
      <div class="example-bar" role="status">
        <Safe in="strong" text={title} />
        <Safe text={message} />
        <span class="muted">{`${formatCount(path.length, 'entry', 'entries')}, nothing executed`}</span>
        <span class="space" />
        {invariant !== undefined && (
          <Button label="Save as test" onClick={() => saveTest(example, invariant)} />
        )}
        <Button label="Back" class="primary" onClick={() => history.back()} />
      </div>
      <RunPanes source={source} runId={run.view.runId} />
    </div>
  );
}

/** Downloads a test that fails while the invariant breaks on the path. The agent's module is for the person to name. */
function saveTest({ past, path }: Example, invariant: string): void {
  const events = [...chartEvents(past), ...path.map(({ event }) => event)];
  const split = past.length === 0 ? 1 : events.length - path.length;
  const breaches = [{ invariant, path: events.slice(split) }];
  const text = formatBreachTest({ module: './agent.ts', past: events.slice(0, split), breaches });
  saveFile('breach.test.ts', new Blob([text], { type: 'text/plain' }));
}

function runOf({ past, path, of: title }: Example): EmbeddedRun {
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
    background: [],
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

function chartEvents(entries: readonly StreamedEvent[]): (RunStarted | ChartEvent)[] {
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
