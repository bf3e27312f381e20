import type { Recording } from '../../engine/replay/record-run.ts';
import type { Outcome } from '../../engine/run/describe-outcome.ts';
import { formatSafeJson, showSafely } from './show-safely.ts';

/** A vitest file that plays a recording and holds what comes of it against what came of the run. */
export function formatTest(
  { recording, outcome }: { recording: Recording; outcome: Outcome },
  { runId, agent, version }: { runId: string; agent: string; version: string },
): string {
  return `/**
 * Plays run ${commented(runId)} of agent ${commented(agent)} again: a scripted model says what the model said, tools give
 * what they gave, people say what they said, each when it was said. Needs no key and no network.
 *
 * Made by agentchart ${version}: agentchart export ${commented(runId)} --test --out FILE
 */
import { playRun, type Outcome, type Recording } from 'agentchart/testing';
import { expect, test } from 'vitest';

/** What happened, in order; the runs that the last one continues come before it. */
const recording: Recording = ${formatLiteral(recording)};

/** What came of it. */
const outcome: Outcome = ${formatLiteral(outcome)};

test(${formatSafeJson(`run ${runId} comes to the same when it is played again`)}, async () => {
  expect(await playRun(recording)).toEqual(outcome);
});
`;
}

/** A value as source: a key that would set the prototype is one like any other. */
function formatLiteral(value: unknown): string {
  return formatSafeJson(value, 2).replace(/^( *)"__proto__":/gm, '$1["__proto__"]:');
}

function commented(text: string): string {
  return showSafely(text).replaceAll('*/', '* /');
}
