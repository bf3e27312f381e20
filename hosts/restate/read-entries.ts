import { isChangedRun } from '../../protocol/listing/work.ts';
import type { Page } from '../../protocol/store.ts';
import { assertUnredacted, missingRun } from '../../stores/run-record.ts';
import type { RestateCalls } from './ingress.ts';
import type { ReadAnswer } from './requests.ts';

/** The size limit of one request, in characters, because Restate limits the size of a response. */
const MOST_CHARS = 1024 * 1024;

/** Entries as the object of a run keeps them. `end`: the seq of the last entry of the journal, if these reach it. */
type KeptEntries = { entries: NonNullable<ReadAnswer>['entries']; end?: number };

/**
 * Reads one page of a journal in as many requests as it needs, and all of them again if the run is redacted meanwhile.
 * Throws `run-unknown`, and like `Store.read` for a page with `redactions`.
 */
export async function readEntries(
  calls: RestateCalls,
  runId: string,
  after: number,
  page: Page,
): Promise<KeptEntries> {
  for (;;) {
    try {
      return await readOnce(calls, runId, after, page);
    } catch (error) {
      if (!isChangedRun(error) || page.redactions !== undefined) throw error;
    }
  }
}

async function readOnce(calls: RestateCalls, runId: string, after: number, page: Page): Promise<KeptEntries> {
  const entries: KeptEntries['entries'] = [];
  let { redactions } = page;
  for (let size = 0, from = after; ; ) {
    const most = Math.min(page.entries - entries.length, Number.MAX_SAFE_INTEGER);
    const answer = await calls.run(runId, 'read', { after: from, entries: most, chars: MOST_CHARS });
    if (answer === null) throw missingRun(runId);
    redactions ??= answer.redactions;
    assertUnredacted(runId, answer, redactions);
    for (const entry of answer.entries) {
      entries.push(entry);
      size += JSON.stringify(entry.event).length;
      if (entries.length >= page.entries || size >= page.chars) return { entries };
    }
    from = answer.entries.at(-1)?.seq ?? answer.last;
    if (from >= answer.last) return { entries, end: answer.last };
  }
}
