import { blobsOf, type RunEvent } from '../protocol/event.ts';
import { type JsonValue, toJson } from '../protocol/json.ts';
import { cutJournal } from './cut-journal.ts';
import type { ExportedBlobs } from './export-blobs.ts';
import { hashEvent, hashState } from './export-run.ts';
import { findDifference } from './find-difference.ts';
import type { UncheckedExport, UncheckedRun } from './read-export.ts';
import {
  isRunEvent,
  type Look,
  type Recording,
  type ReplayOptions,
  replayJournal,
  type Verdict,
} from './replay-journal.ts';

/**
 * Replays an export, the runs it continues first. The verdict is that of the first run that is not equal,
 * else that of the exported one, of which `until` is an entry. With `blobs` the large results are checked too. Throws `chart-mismatch`, `input-invalid`.
 */
export function replayExport(
  { chain = [], ...exported }: UncheckedExport,
  look: Look = () => {},
  { until, blobs }: ReplayOptions & { blobs?: ExportedBlobs } = {},
): Verdict {
  const last = { ...exported, journal: [...cutJournal(exported.journal, until, exported.run.runId)] };
  let continued: string | undefined;
  for (const run of chain) {
    const verdict = replayJournal(recordingOf(run, continued, blobs), look);
    if (!verdict.equal) return verdict;
    continued = run.run.runId;
  }
  const recording = recordingOf(last, continued, blobs);
  if (last.journal.length === exported.journal.length) return replayJournal(recording, look);
  const { checkEnd: _, ...checks } = recording;
  return replayJournal({ ...checks, of: exported.journal.length }, look);
}

function recordingOf(
  { run, journal, hashes, stateHash }: UncheckedRun,
  continued: string | undefined,
  blobs: ExportedBlobs | undefined,
): Recording {
  return {
    runId: run.runId,
    entries: journal,
    of: journal.length,
    comparedWith: 'the hashes of the export',
    checkEntry: ({ seq, event }, place) => {
      if (seq !== place) return `is missing: entry ${seq} stands in its place`;
      if (hashEvent(event) !== hashes[place - 1]) return 'is not the one that was exported: its hash differs';
      return place === 1 ? checkHead(run, event, continued) : findBlobFault(event, blobs);
    },
    checkEnd: state => {
      const { length } = journal;
      if (hashes.length > length)
        return { seq: length + 1, message: `is missing: ${hashes.length} were exported` };
      const hash = hashState(state);
      if (hash === stateHash) return null;
      return { seq: length, message: `leads to a state with the hash ${hash}; exported was ${stateHash}` };
    },
  };
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
