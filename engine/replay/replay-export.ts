import type { ChartState } from '../../machines/step.ts';
import { blobsOf, type JournalEntry, type RunEvent } from '../../protocol/event.ts';
import { isRunEvent } from '../../protocol/is-run-event.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import { hashState } from '../journal/load-run.ts';
import type { ExportedBlobs } from './export-blobs.ts';
import { describeEnd, hashEvent, hashHead, hashNext, hashSeal } from './export-run.ts';
import { findDifference } from './find-difference.ts';
import type { UncheckedExport, UncheckedRun } from './read-export.ts';
import {
  cutJournal,
  type Problem,
  type Recorded,
  type Recording,
  type ReplayObserver,
  type ReplayOptions,
  type ReplayReport,
  replayJournal,
} from './replay-journal.ts';

/**
 * Replays an export, the runs it continues first. The report is that of the first run that is not equal,
 * else that of the exported one, of which `until` is an entry. With `blobs` the large results are checked too. Throws `chart-mismatch`, `input-invalid`.
 */
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

/** Of the entries of a run that are replayed: all of them, or its first. */
function recordingOf(
  exported: UncheckedRun,
  entries: readonly Recorded[],
  continued: UncheckedRun | undefined,
  blobs: ExportedBlobs | undefined,
): Recording {
  const { run, journal, hashes } = exported;
  const hash = 'end' in exported ? chainHashes(run, continued) : ({ event }: Recorded) => hashEvent(event);
  const isWhole = entries.length === journal.length;
  return {
    runId: run.runId,
    entries,
    of: journal.length,
    comparedWith: 'end' in exported ? 'the chain of hashes of the export' : 'the hashes of the export',
    checkEntry: (entry, place) => {
      if (entry.seq !== place) return `is missing: entry ${entry.seq} stands in its place`;
      const unlike = place === 1 ? checkHead(run, entry.event, continued?.run.runId) : null;
      if (unlike !== null) return unlike;
      if (hash(entry) !== hashes[place - 1]) return 'is not the one that was exported: its hash differs';
      return findBlobFault(entry.event, blobs);
    },
    ...(isWhole && { checkEnd: state => checkEnd(exported, state) }),
  };
}

function chainHashes(run: UncheckedRun['run'], continued: UncheckedRun | undefined) {
  let last = hashHead(run, continued !== undefined && 'seal' in continued ? continued.seal : undefined);
  return ({ seq, event }: Recorded): string => {
    last = hashNext(last, seq, event);
    return last;
  };
}

function checkEnd(exported: UncheckedRun, state: ChartState): Problem | null {
  const { journal, hashes } = exported;
  const { length } = journal;
  if (hashes.length > length)
    return { seq: length + 1, message: `is missing: ${hashes.length} were exported` };
  const stateHash = 'end' in exported ? exported.end.stateHash : exported.stateHash;
  const hash = hashState(state);
  if (hash !== stateHash)
    return { seq: length, message: `leads to a state with the hash ${hash}; exported was ${stateHash}` };
  if (!('end' in exported)) return null;
  const entries = journal.filter((entry): entry is JournalEntry => isRunEvent(entry.event));
  const end = describeEnd(entries, state);
  const difference = findDifference(toJson(exported.end), toJson(end));
  if (difference !== null)
    return { seq: length, message: `leads to another ${difference} than the export says` };
  if (exported.seal === hashSeal(hashes.at(-1) ?? '', end)) return null;
  return { seq: length, message: 'is not the last that was exported: the seal differs' };
}

function findBlobFault(event: JsonValue | RunEvent, blobs: ExportedBlobs | undefined): string | null {
  if (blobs === undefined || !isRunEvent(event)) return null;
  return (
    blobsOf(event)
      .map(blob => blobs.findFault(blob))
      .find(fault => fault !== null) ?? null
  );
}

/** What an export says of a run beside its journal is what the journal says. */
function checkHead(
  run: UncheckedRun['run'],
  event: JsonValue | RunEvent,
  continued: string | undefined,
): string | null {
  if (!isRunEvent(event) || event.type !== 'run.started') return null;
  const { runId, agent, chart, continues } = event;
  const difference = findDifference(toJson(run), toJson({ runId, agent, chart }));
  if (difference !== null) return `has another ${difference} than the export says`;
  if (continues === continued) return null;
  if (continued === undefined) return `continues run ${continues}, which the export has not`;
  return `does not continue run ${continued}, which the export has before it`;
}
