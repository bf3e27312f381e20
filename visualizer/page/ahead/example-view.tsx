import { useMemo } from 'preact/hooks';
import { formatBreachTest } from '../../breach-test.ts';
import type { Example } from '../app/played.ts';
import { playedSource } from '../data/embedded-source.ts';
import { formatCount } from '../render/format.ts';
import { RunView } from '../run/run-view.tsx';
import { Safe } from '../ui/text.tsx';
import { chartEvents, runOf } from './run-of-example.ts';

/** A path that did not happen, in the view of a run. */
export function ExampleView({ example }: { example: Example }) {
  const run = useMemo(() => runOf(example), [example]);
  const source = useMemo(() => playedSource(run), [run]);
  const { title, message, path, invariant } = example;
  return (
    <div class="example">
      <div class="example-bar" role="status">
        <strong>
          <Safe text={title} />
        </strong>
        <Safe text={message} />
        <span class="muted">{`${formatCount(path.length, 'entry', 'entries')}, nothing executed`}</span>
        <span class="space" />
        {invariant === undefined ? null : (
          <button type="button" onClick={() => saveTest(example, invariant)}>
            Save as test
          </button>
        )}
        <button type="button" class="primary" onClick={() => history.back()}>
          Back
        </button>
      </div>
      <RunView source={source} runId={run.view.runId} />
    </div>
  );
}

/** Downloads a test that fails while the invariant breaks on the path. The agent's module is for the person to name. */
function saveTest({ past, path }: Example, invariant: string): void {
  const events = [...chartEvents(past), ...path.map(({ event }) => event)];
  const split = past.length === 0 ? 1 : events.length - path.length;
  const breaches = [{ invariant, path: events.slice(split) }];
  const text = formatBreachTest({ module: './agent.ts', past: events.slice(0, split), breaches });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  link.download = 'breach.test.ts';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
