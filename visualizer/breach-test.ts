import type { ChartEvent, RunStarted } from '../protocol/event.ts';

type SavedBreach = { invariant: string; path: readonly (RunStarted | ChartEvent)[] };

type Saved = {
  module: string;
  past: readonly (RunStarted | ChartEvent)[];
  breaches: readonly SavedBreach[];
  /** What may never start, if the module's own `never` is not all. */
  never?: readonly string[];
};

/** Returns the source of a vitest file with a test for each breach, which fails while the invariant breaks there. */
export function formatBreachTest({ module, past, breaches, never }: Saved): string {
  const rules = never === undefined ? 'never' : `never: ${formatLiteral(never)}`;
  const tests = breaches.map(
    ({ invariant, path }) => `
test(${formatLiteral(`${invariant}: holds on the path that broke it`)}, () => {
  const path: CheckedPath['path'] = ${formatLiteral(path)};
  expect(checkPath(agent, { past, path }, { machine, invariants, samples, runContext, ${rules} })).toEqual([]);
});
`,
  );
  return `/**
 * Paths that broke an invariant or a rule of the agent, found by agentchart explore. A test fails while it breaks on its
 * path. It passes once it holds there, or an event of the path is no longer possible. Executes nothing.
 */
import { checkPath, type CheckedPath, type CheckPathOptions } from 'agentchart/testing';
import { expect, test } from 'vitest';
import agent, * as exported from ${formatLiteral(module)};

const { machine, invariants, samples, runContext${never === undefined ? ', never' : ''} }: CheckPathOptions = exported;

/** What happened before, from the start of the run. */
const past: CheckedPath['past'] = ${formatLiteral(past.map(event => ({ ...event, launch: undefined })))};
${tests.join('')}`;
}

/** Characters that JSON does not escape and that could reorder or break a line of source code. */
const UNESCAPED = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Returns a value as source code. A `__proto__` key is written so that it does not set the prototype. */
export function formatLiteral(value: unknown): string {
  return JSON.stringify(value, null, 2)
    .replace(UNESCAPED, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replace(/^( *)"__proto__":/gm, '$1["__proto__"]:');
}
