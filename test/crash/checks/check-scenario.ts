import { loadRun } from '../../../engine/journal/load-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Context } from '../../../machines/context.ts';
import type { Item } from '../../../protocol/item.ts';
import type { Store } from '../../../protocol/store.ts';
import { RUN } from '../drive-chart.ts';
import { openStore } from '../open-store.ts';
import { type Act, Outside } from '../outside.ts';
import { checkAcknowledged } from './check-acknowledged.ts';
import { checkCalls, checkLedger, type Evidence } from './check-calls.ts';
import { checkReviews } from './check-reviews.ts';
import { checkTranscript } from './check-transcript.ts';

/** The tools whose calls must not happen twice. */
const ONCE: ReadonlySet<string> = new Set([
  'pay',
  'ask',
  'refund',
  'deploy',
  'blind',
  'blank',
  'hang',
  'hold',
]);

/** The faults at the end of a scenario. */
export type Findings = {
  /** Calls of `once` tools that happened more than once. */
  doubles: string[];
  /** All other broken promises. */
  lost: string[];
  /** The number of calls that a person was asked to resolve. */
  doubted: number;
};

/** The `once` calls that happened more than once, from the records of the tools. */
export function findDoubles(acts: readonly Act[]): string[] {
  const counts = new Map<string, number>();
  for (const { tool, runId, callId } of acts) {
    if (!ONCE.has(tool)) continue;
    const call = `${callId} of ${runId} (${tool})`;
    counts.set(call, (counts.get(call) ?? 0) + 1);
  }
  return [...counts].flatMap(([call, count]) => (count > 1 ? [`${call} happened ${count} times`] : []));
}

/** Compares the external records with the journals, both as they are on disk. */
export async function checkScenario(folder: string): Promise<Findings> {
  const outside = new Outside(folder);
  const { acts, acknowledged } = outside;
  const doubts = acknowledged.flatMap(line =>
    line.type === 'doubted' ? [`${line.runId} ${line.callId}`] : [],
  );
  const found = { doubles: findDoubles(acts), doubted: new Set(doubts).size };
  const store = openStore(folder);
  try {
    return { ...found, lost: await findLost(store, outside) };
  } catch (error) {
    return { ...found, lost: [String(error)] };
  } finally {
    await store.close();
  }
}

async function findLost(store: Store, { acts, acknowledged }: Outside): Promise<string[]> {
  const runs = (await store.list({ limit: 1000 })).runs.map(({ runId }) => runId);
  const evidence = await Promise.all(
    runs.map(async (runId): Promise<Evidence> => {
      const { state } = await loadRun(store, runId);
      const events = (await store.read(runId)).map(({ event }) => event);
      return { runId, state, events, acts: acts.filter(act => act.runId === runId) };
    }),
  );
  const replays = await Promise.all(runs.map(runId => checkReplay(store, runId)));
  const orphans = acts.filter(act => !runs.includes(act.runId));
  return [
    ...(runs.includes(RUN) ? [] : [`there is no run ${RUN}`]),
    ...orphans.map(({ runId, callId }) => `${callId} happened for ${runId}, which does not exist`),
    ...evidence.flatMap(({ runId, state }) =>
      state.value === 'finished' ? [] : [`${runId} is ${JSON.stringify(state.value)}`],
    ),
    ...evidence.flatMap(({ state }) => checkTranscript(ownItems(state.context))),
    ...replays.flat(),
    ...evidence.flatMap(run => checkCalls(run, evidence)),
    ...evidence.flatMap(checkLedger),
    ...evidence.flatMap(checkReviews),
    ...acknowledged.flatMap(line => {
      const runId = 'runId' in line ? line.runId : RUN;
      const about = evidence.find(run => run.runId === runId);
      return about === undefined ? [`${JSON.stringify(line)}: of no run`] : checkAcknowledged(line, about);
    }),
  ];
}

/** A run that sees the conversation so far begins with the result of the call that handed it over. */
function ownItems({ handedBy, transcript }: Context): readonly Item[] {
  const isHanded = handedBy !== undefined && transcript[0]?.type === 'tool_result';
  return isHanded ? transcript.slice(1) : transcript;
}

async function checkReplay(store: Store, runId: string): Promise<string[]> {
  const { equal, problem } = await replayRun(store, runId);
  if (equal) return [];
  return [`the journal of ${runId} does not replay: entry ${problem?.seq} ${problem?.message}`];
}
