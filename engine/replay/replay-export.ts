import type { ChartState } from '../../machines/step.ts';
import { findDifference } from '../../protocol/content/find-difference.ts';
import { blobsOf, type JournalEntry, type RunEvent } from '../../protocol/event.ts';
import { isRunEvent } from '../../protocol/is-run-event.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import { hashState } from '../journal/load-run.ts';
import { describeEnd, hashHead, hashNext, hashSeal } from './export-run.ts';
import type { ExportedBlobs, UncheckedExport, UncheckedRun } from './read-export.ts';
import {
  cutJournal,
  type Problem,
  type Recorded,
  type ReplayedRecording,
  type ReplayObserver,
  type ReplayOptions,
  type ReplayReport,
  replayJournal,
} from './replay-journal.ts';

/** Reports the first run with a problem, else the exported one, which `until` is about. Throws `chart-mismatch`, `input-invalid`. */
export function replayExport(
  exported: UncheckedExport,
  observe: ReplayObserver = () => {},
  { until, blobs }: ReplayOptions & { blobs?: ExportedBlobs } = {},
): ReplayReport {
  const { chain = [] } = exported;
  const journal = cutJournal(exported.journal, until, exported.run.runId);
  let continued: UncheckedRun | undefined;
  for (const run of chain) {
    const report = replayJournal(recordingOf(run, run.journal, continued, blobs), observe);
    if (!report.equal) return report;
    continued = run;
  }
  return replayJournal(recordingOf(exported, journal, continued, blobs), observe);
}

function recordingOf(
  exported: UncheckedRun,
  entries: readonly Recorded[],
  continued: UncheckedRun | undefined,
  blobs: ExportedBlobs | undefined,
): ReplayedRecording {
  const { run, journal, hashes } = exported;
  let hash = hashHead(run, continued?.seal);
  const isComplete = entries.length === journal.length;
  return {
    runId: run.runId,
    entries,
    of: journal.length,
    comparedWith: 'the hash chain of the export',
    checkEntry: (entry, place) => {
      if (entry.seq !== place) return `is missing: entry ${entry.seq} is in its place`;
      const difference = place === 1 ? checkHead(run, entry.event, continued?.run.runId) : null;
      if (difference !== null) return difference;
      hash = hashNext(hash, entry.seq, entry.event);
      if (hash !== hashes[place - 1]) return 'was changed after the export: its hash differs';
      const named = blobs !== undefined && isRunEvent(entry.event) ? blobsOf(entry.event) : [];
      return named.map(blob => blobs?.findFault(blob) ?? null).find(fault => fault !== null) ?? null;
    },
    ...(isComplete && { checkEnd: state => checkEnd(exported, state) }),
  };
}

function checkEnd(exported: UncheckedRun, state: ChartState): Problem | null {
  const { journal, hashes } = exported;
  const { length: seq } = journal;
  if (hashes.length > seq)
    return { seq: seq + 1, message: `is missing: ${hashes.length} entries were exported` };
  const hash = hashState(state);
  const { stateHash } = exported.end;
  if (hash !== stateHash)
    return { seq, message: `leads to a state with the hash ${hash}, but the export has ${stateHash}` };
  const entries = journal.filter((entry): entry is JournalEntry => isRunEvent(entry.event));
  const end = describeEnd(entries, state);
  const difference = findDifference(toJson(exported.end), toJson(end));
  if (difference !== null) return { seq, message: `leads to a different ${difference} than the export has` };
  if (exported.seal === hashSeal(hashes.at(-1) ?? '', end)) return null;
  return { seq, message: 'is not the last entry that was exported: the seal differs' };
}

function checkHead(
  run: UncheckedRun['run'],
  event: JsonValue | RunEvent,
  continued: string | undefined,
): string | null {
  if (!isRunEvent(event) || event.type !== 'run.started') return null;
  const { runId, agent, chart, continues } = event;
  const difference = findDifference(toJson(run), toJson({ runId, agent, chart }));
  if (difference !== null) return `has a different ${difference} than the head of the export`;
  if (continues === continued) return null;
  if (continued === undefined) return `continues run ${continues}, which is missing from the export`;
  return `does not continue run ${continued}, which precedes it in the export`;
}
