import { writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Agent } from '../../../agent/agent.ts';
import { type CheckedPath, checkPath } from '../../../explore/check-path.ts';
import type { ExploreOptions } from '../../../explore/explore.ts';
import { readPast } from '../../../explore/forward/explore-from.ts';
import type { BreachReport, ExplorationReport } from '../../../explore/report.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import type { ChartEvent, JournalEntry } from '../../../protocol/event.ts';
import { formatBreachTest } from '../../../visualizer/breach-test.ts';
import { formatPath } from '../../render/format-path.ts';
import type { Output } from '../../render/output.ts';

/** What is explored: an agent of a module, from the start or from the last of a run's `entries`. */
export type Explored = {
  agent: Agent;
  module?: string;
  exports: ExploreOptions;
  entries?: readonly JournalEntry[];
};

/** Writes a vitest file with a test for each breach that one path shows. Throws `input-invalid` if it cannot be written. */
export function saveBreachTests(
  output: Output,
  file: string,
  { agent, module, exports, entries }: Explored,
  { breaches }: ExplorationReport,
): void {
  const found = breaches.flatMap(({ invariant, path }) => {
    const checked = pathOf(path, entries);
    const isShown = checked !== null && checkPath(agent, checked, exports).length > 0;
    return isShown ? [{ invariant, ...checked }] : [];
  });
  const [first] = found;
  if (first === undefined || module === undefined) {
    if (!output.json) output.line('No test was written: there is no breach that a test can show.');
    return;
  }
  const from = relative(dirname(resolve(file)), resolve(module)).replaceAll('\\', '/');
  const imported = from.startsWith('.') ? from : `./${from}`;
  try {
    writeFileSync(file, formatBreachTest({ module: imported, past: first.past, breaches: found }));
  } catch (cause) {
    const message = `Cannot write ${formatPath(file)}: ${messageOf(cause)}. Choose another --save-test.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
  if (!output.json) output.line(`Saved as a test. To run it: npx vitest run ${formatPath(file)}`);
}

/** Returns the events of a breach; those of a run come after its entries. */
function pathOf(path: BreachReport['path'], entries: Explored['entries']): CheckedPath | null {
  const events = path.map(({ event }) => event);
  const isChart = (event: (typeof events)[number]): event is ChartEvent => event.type !== 'run.started';
  const [first] = events;
  if (entries !== undefined) {
    const { started, past } = readPast(entries);
    return { past: [started, ...past], path: events.filter(isChart) };
  }
  return first?.type === 'run.started' ? { past: [first], path: events.filter(isChart) } : null;
}
