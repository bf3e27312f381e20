import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { RunStatus } from '../../../protocol/store.ts';
import { checkTranscript } from '../../crash/checks/check-transcript.ts';
import { type Finding, found } from '../cases/finding.ts';
import type { Act } from './chaos-agent.ts';

/** An acknowledgement by any process. */
export type Acknowledged = { runId: string } & (
  | { type: 'started' | 'forked' | 'paused' | 'cancelled' }
  | { type: 'decided' | 'resolved'; callId: string }
  | { type: 'sent' | 'edited'; text: string }
);

export type RunEvidence = {
  runId: string;
  status: RunStatus;
  parent?: { runId: string; callId: string };
  events: readonly RunEvent[];
  transcript: readonly Item[];
  /** The state of the run, its reason, and the open calls. */
  stands?: string;
  /** Why the replay differs. */
  replayFault?: string;
};

/** All evidence at the end, for any engine. `once`: the tools that must not act twice. */
export type Evidence = {
  acknowledged: readonly Acknowledged[];
  acts: readonly Act[];
  runs: readonly RunEvidence[];
  once: ReadonlySet<string>;
};

/** What a message says that comes with a fork whose other commands must be refused. */
export const REFUSED_FORK = 'said to a refused fork';

export function checkEvidence(evidence: Evidence): Finding[] {
  return [
    ...findLost(evidence),
    ...findGone(evidence),
    ...findRefusedForks(evidence),
    ...findDoubles(evidence),
    ...findContradicted(evidence),
    ...findStranded(evidence),
    ...findBroken(evidence),
  ];
}

/** Acts of runs that no store has any more. */
function findGone({ acts, runs }: Evidence): Finding[] {
  const there = new Set(runs.map(({ runId }) => runId));
  const gone = acts.filter(({ runId }) => !there.has(runId));
  return gone.map(({ tool, runId }) => found('lost', `${tool} acted, and the journal of ${runId} is gone`));
}

function findRefusedForks({ runs }: Evidence): Finding[] {
  const isRefused = ({ events }: RunEvidence) =>
    events.some(event => event.type === 'message.received' && JSON.stringify(event).includes(REFUSED_FORK));
  return runs.filter(isRefused).map(({ runId }) => found('broken', `${runId} is a fork that was refused`));
}

/** Acknowledgements that are not in the journal as often as required. */
function findLost({ acknowledged, runs }: Evidence): Finding[] {
  const byId = new Map(runs.map(run => [run.runId, run]));
  return acknowledged.flatMap(line => {
    const run = byId.get(line.runId);
    const isKept = run !== undefined && isInJournal(line, run.events);
    return isKept
      ? []
      : [found('lost', `${JSON.stringify(line)} was acknowledged, but is not in the journal`)];
  });
}

function isInJournal(acknowledged: Acknowledged, events: readonly RunEvent[]): boolean {
  const hasCall = (type: RunEvent['type'], callId: string) =>
    events.some(event => event.type === type && 'callId' in event && event.callId === callId);
  const countText = (type: RunEvent['type'], text: string) =>
    events.filter(event => event.type === type && JSON.stringify(event).includes(text)).length;
  switch (acknowledged.type) {
    case 'started':
    case 'forked':
      return true;
    case 'paused':
      return events.some(({ type }) => type === 'pause.requested');
    case 'cancelled':
      return events.some(({ type }) => /^(run\.cancelled|cancel\.requested)$/.test(type));
    case 'decided':
      return hasCall('approval.decided', acknowledged.callId);
    case 'resolved':
      return hasCall('doubt.resolved', acknowledged.callId);
    case 'sent':
      return countText('message.received', acknowledged.text) === 1;
    case 'edited':
      return countText('transcript.edited', acknowledged.text) > 0;
  }
}

/** Calls of `once` tools that acted twice under one key without a person's forced retry. */
function findDoubles({ acts, runs, once }: Evidence): Finding[] {
  const byKey = new Map<string, Act[]>();
  for (const act of acts) {
    if (!once.has(act.tool)) continue;
    byKey.set(act.key, [...(byKey.get(act.key) ?? []), act]);
  }
  return [...byKey].flatMap(([key, [first, ...more]]) => {
    if (first === undefined || more.length === 0) return [];
    const { tool, callId } = first;
    if (runs.some(run => isForced(run, callId, key))) return [];
    return [found('silent doubles', `${tool} acted ${more.length + 1} times under the key ${key}`)];
  });
}

function isForced({ events }: RunEvidence, callId: string, key: string): boolean {
  const isOfKey = events.some(event => event.type === 'tool.started' && event.key === key);
  const resolved = events.filter(event => event.type === 'doubt.resolved' && event.callId === callId);
  return isOfKey && resolved.some(event => JSON.stringify(event).includes('"force":true'));
}

/** Calls that the engine itself recorded as not happened, although they happened. */
function findContradicted({ acts, runs }: Evidence): Finding[] {
  return runs.flatMap(({ runId, events }) =>
    events.flatMap(event => {
      if (event.type !== 'tool.settled' || !event.isError) return [];
      if (!JSON.stringify(event.output).includes('did not happen')) return [];
      const { callId } = event;
      const hasActed = acts.some(act => act.runId === runId && act.callId === callId);
      return hasActed
        ? [found('broken', `${callId} of ${runId} is recorded as not happened, and happened`)]
        : [];
    }),
  );
}

/** Runs that have not ended, although every question has been answered. */
function findStranded({ runs }: Evidence): Finding[] {
  return runs.flatMap(({ runId, status, events, stands }) => {
    if (status !== 'running' && status !== 'waiting') return [];
    return [
      found(
        'stranded',
        `${runId} is ${status} behind entry ${events.length}, ${events.at(-1)?.type}: ${stands}`,
      ),
    ];
  });
}

function findBroken({ runs }: Evidence): Finding[] {
  return runs.flatMap(({ runId, status, transcript, events, replayFault }) => [
    ...(status === 'failed' ? [found('broken', `${runId} failed: ${JSON.stringify(events.at(-1))}`)] : []),
    ...(replayFault === undefined ? [] : [found('broken', `${runId} does not replay: ${replayFault}`)]),
    ...(status === 'finished' ? checkTranscript(transcript) : []).map(fault =>
      found('broken', `${runId}: ${fault}`),
    ),
    ...childrenTwice(runId, runs),
  ]);
}

function childrenTwice(runId: string, runs: readonly RunEvidence[]): Finding[] {
  const calls = runs.flatMap(({ parent }) => (parent?.runId === runId ? [parent.callId] : []));
  const twice = calls.filter((callId, place) => calls.indexOf(callId) !== place);
  return twice.map(callId => found('broken', `${callId} of ${runId} has two runs`));
}
