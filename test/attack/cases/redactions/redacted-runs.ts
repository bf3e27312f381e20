import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAgent } from '../../../../agent/index.ts';
import { replayRun } from '../../../../engine/replay/replay-run.ts';
import { messageOf } from '../../../../protocol/error.ts';
import type { MessageItem } from '../../../../protocol/item.ts';
import type { Store } from '../../../../protocol/store.ts';
import type { ModelRequest } from '../../../../protocol/turn.ts';
import { makeTool } from '../../../support/engine/agents.ts';
import { answerWith } from '../../../support/engine/models.ts';

/** The runs of the attack: some wait for an approval, some have ended. Each has values in one page and on the next. */
export const WAITING = ['w0'] as const;
export const ENDED = ['e0'] as const;
export const RUNS = [...WAITING, ...ENDED] as const;

/** How many values the input of each run has. */
export const VALUES = 6;
/** What fills the first page of a load beside the values, in characters. */
const FILL_CHARS = 300_000;

/** What asks the model to call a tool that needs an approval. */
export const ASK = 'ask';

/** What is redacted, in clear: a text that occurs nowhere else. */
export function secretOf(runId: string, place: number): string {
  return `clear-${runId}-${place}.`;
}

export function pathOf(place: number): string {
  return `/1/input/${place}/content/0/text`;
}

/** The values in a text. */
export function valuesIn(text: string): string[] {
  return [...new Set(text.match(/clear-[we]\d-\d\./g))];
}

/** A redaction was acknowledged at this time, in ms since the epoch. */
export type Acknowledged = { runId: string; value: string; at: number };
/** A request to the model, or a fork, of a command that began at `since`, in ms since the epoch. */
export type Asked = { since: number; values: string[] };
export type Forked = { since: number; runId: string };
export type Fault = { what: string };

/** Appends a line to a file of the attack's folder, which processes share. */
export function note(folder: string, file: string, line: Acknowledged | Asked | Forked | Fault): void {
  appendFileSync(join(folder, file), `${JSON.stringify(line)}\n`);
}

/** The agent of all runs. `onRequest` is called with each request to its model. */
export function makeAgent(store: Store, onRequest: (request: ModelRequest) => void = () => {}) {
  let calls = 0;
  const model = answerWith(request => {
    onRequest(request);
    calls += 1;
    const last = request.transcript.findLast(item => item.type === 'message' && item.role === 'user');
    if (!JSON.stringify(last).includes(ASK)) return { text: 'Answered.' };
    return { toolCalls: [{ callId: `call-${process.pid}-${calls}`, name: 'pay' }] };
  });
  return createAgent({ name: 'desk', store, model, tools: [makeTool('pay', { approval: true })] });
}

/** Creates the runs. */
export async function beginRuns(store: Store): Promise<void> {
  const agent = makeAgent(store);
  for (const runId of RUNS) {
    const values = Array.from({ length: VALUES }, (_, place) => say(secretOf(runId, place)));
    const last = WAITING.some(waiting => waiting === runId) ? ASK : 'tell';
    const run = await agent.start([...values, say('x'.repeat(FILL_CHARS)), say(last)], { runId });
    await run.settled();
  }
}

function say(text: string): MessageItem {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }] };
}

/** Why a run does not replay; `undefined` if it does. */
export async function findFault(store: Store, runId: string): Promise<string | undefined> {
  try {
    const { equal, problem } = await replayRun(store, runId);
    return equal ? undefined : `${runId} does not replay: entry ${problem?.seq} ${problem?.message}`;
  } catch (error) {
    return `${runId} does not replay: ${messageOf(error)}`;
  }
}
