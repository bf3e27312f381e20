import { checkDocuments, compare, type DocumentFile, REPORT_NAME } from '../steward/check-documents.ts';
import { readFolder } from '../steward/instructions.ts';
import { type UnreadFile, writeReport } from '../steward/write-report.ts';
import * as say from './answers.ts';
import { type HistoryEntry, isCallOf, type KnownTool, knownTool, type PastCall } from './history.ts';
import { listFolder } from './listing.ts';
import { isMarkdown } from './listing-text.ts';
import { findPass } from './pass.ts';
import { joinPath, relativePath, trimSlash } from './paths.ts';
import { answer, BATCH, type PlannedTurn } from './turn.ts';

/** A request to the model. `tools` are the names of the tools it may call. */
type Question = {
  instructions: string;
  history: readonly HistoryEntry[];
  tools: readonly string[];
  toolsOff: boolean;
};

/**
 * Decides the next turn from the transcript alone: list the folder, read every document, propose the report, answer.
 * A later message that asks for a check starts again from the beginning; the answer to any other message explains
 * that this is a stand-in.
 */
export function decideTurn({ instructions, history, tools, toolsOff }: Question): PlannedTurn {
  const pass = findPass(history);
  if (pass.talksAfterwards !== null) return answer(say.explainMyself(pass.talksAfterwards));
  const use = (tool: KnownTool) => (toolsOff ? undefined : tools.find(name => knownTool(name) === tool));

  const root = findRoot(instructions, history);
  if (root === null) {
    const ask = use('list_allowed_directories');
    if (ask && !history.some(isCallOf('list_allowed_directories'))) {
      return {
        text: 'The request does not name a folder. I will ask which folders I may read.',
        calls: [{ name: ask, input: {} }],
      };
    }
    return answer(say.missFolder());
  }

  const listing = listFolder(root, pass.calls, use);
  if (listing.type === 'turn') return listing.turn;
  const { paths, failures } = listing;
  const documents = paths.filter(path => isMarkdown(path) && path !== REPORT_NAME).sort(compare);
  if (documents.length === 0) return answer(say.findNothing(root, failures));

  const { files, unread, pending } = readDocuments(root, documents, pass.calls);
  const findings = checkDocuments(files, paths);
  const work = { root, files, findings, unread: [...failures, ...unread], unheard: pass.unheard };
  if (pending.length > 0) {
    const name = use('read_text_file') ?? use('read_file');
    if (name === undefined) return answer(say.stopEarly(work, pending.length, toolsOff));
    const batch = pending.slice(0, BATCH);
    return {
      text: say.announceReading(documents.length, batch.length, pending.length),
      calls: batch.map(path => ({ name, input: { path: joinPath(root, path) } })),
    };
  }
  return reportOn(work, pass.calls, use('write_file'));
}

function reportOn(work: say.Work, calls: readonly PastCall[], write: string | undefined): PlannedTurn {
  const written = calls.findLast(isCallOf('write_file'));
  if (written) {
    const place = /^Successfully wrote to (.+)$/s.exec(written.outcome.text.trim())?.[1];
    return answer(place ? say.summarise(work, place) : say.reportRefused(work, written.outcome.text.trim()));
  }
  if (write === undefined) return answer(say.reportUnwritable(work));
  const content = writeReport(work.files, work.findings, work.unread);
  return {
    text: say.announceReport(work),
    calls: [{ name: write, input: { path: joinPath(work.root, REPORT_NAME), content } }],
  };
}

function readDocuments(root: string, documents: readonly string[], calls: readonly PastCall[]) {
  const reads = calls.filter(call => call.name === 'read_text_file' || call.name === 'read_file');
  const outcomes = new Map(reads.map(call => [relativePath(root, call.input.path), call.outcome]));
  const files: DocumentFile[] = [];
  const unread: UnreadFile[] = [];
  const pending: string[] = [];
  for (const path of documents) {
    const outcome = outcomes.get(path);
    if (!outcome) pending.push(path);
    else if (outcome.failed) unread.push({ path, reason: outcome.text.trim() });
    else files.push({ path, text: outcome.text });
  }
  return { files, unread, pending };
}

function findRoot(instructions: string, history: readonly HistoryEntry[]): string | null {
  const texts = history.flatMap(entry =>
    entry.type === 'instructions' || entry.type === 'user' ? [entry.text] : [],
  );
  const named = [instructions, ...texts].map(readFolder).find(folder => folder !== null);
  if (named) return trimSlash(named);
  const listed = history.find(isCallOf('directory_tree')) ?? history.find(isCallOf('list_directory'));
  if (typeof listed?.input.path === 'string') return trimSlash(listed.input.path);
  const allowed = history.find(isCallOf('list_allowed_directories'));
  const first = allowed && !allowed.outcome.failed ? allowed.outcome.text.split('\n')[1]?.trim() : undefined;
  return first ? trimSlash(first) : null;
}
