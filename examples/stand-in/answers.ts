/** The texts of the stand-in: one sentence before each round of calls, and its answers. */
import { type DocumentFile, FINDING_KINDS, type Finding, REPORT_NAME } from '../steward/check-documents.ts';
import { codeSpan } from '../steward/code-span.ts';
import { readBlocks } from '../steward/markdown-blocks.ts';
import { countDocuments, countFindings, nameKind, type UnreadFile } from '../steward/write-report.ts';

/** What the stand-in knows about a folder. `unheard` are messages that arrived while it worked. */
export type Work = {
  root: string;
  files: DocumentFile[];
  findings: Finding[];
  unread: UnreadFile[];
  unheard: string[];
};

const WHO = 'This answer is from a stand-in: fixed rules over the tool results, no language model.';
const QUOTES = 3;

/** Announces the listing of the folder. */
export function announceListing(root: string): string {
  return `I will list ${root}.`;
}

/** Announces the listing of sub-folders. */
export function announceFolders(folders: readonly string[]): string {
  return `Next I will list the ${folders.length === 1 ? 'folder' : 'folders'} ${folders.join(', ')}.`;
}

/** Announces reading `now` of `all` documents, of which `left` are unread. */
export function announceReading(all: number, now: number, left: number): string {
  if (now === all)
    return `The folder holds ${countDocuments(all)}; I will read ${all === 1 ? 'it' : 'all of them at once'}.`;
  return left === all
    ? `The folder holds ${countDocuments(all)}; I will read the first ${now}.`
    : `I will read the next ${now} of ${all}.`;
}

/** Announces the proposed report. */
export function announceReport({ files, findings }: Work): string {
  return `I read ${countDocuments(files.length)} and have ${countFindings(findings)}. I will ask to write ${REPORT_NAME}.`;
}

/** The answer after the report was written to the path `place`. */
export function summarise(work: Work, place: string): string {
  return join([
    describeReading(work),
    quote(work),
    describeFindings(work),
    `The report is in ${place}.`,
    ...ending(work),
  ]);
}

/** The answer after a write that failed or was rejected; `reply` is the tool's result. */
export function reportRefused(work: Work, reply: string): string {
  const refused = `${REPORT_NAME} was not written. The answer to my request was: ${codeSpan(reply)}`;
  return join([refused, describeReading(work), describeFindings(work), ...ending(work)]);
}

/** The answer if there is no tool for writing, or tools are disabled. */
export function reportUnwritable(work: Work): string {
  const note = `${REPORT_NAME} was not written: the write_file tool was not available.`;
  return join([note, describeReading(work), quote(work), describeFindings(work), ...ending(work)]);
}

/** The answer if `left` documents remain unread and cannot be read. */
export function stopEarly(work: Work, left: number, toolsOff: boolean): string {
  const why = toolsOff ? 'tools are disabled' : 'I have no tool named read_text_file or read_file';
  const stopped = `I had to stop early: ${countDocuments(left)} in ${work.root} unread, because ${why}.`;
  if (work.files.length === 0) return join([stopped, ...ending(work)]);
  const caution = 'Links and headings of unread documents could not be checked, and no report was written.';
  return join([stopped, describeReading(work), describeFindings(work), caution, ...ending(work)]);
}

/** The answer if the folder has no Markdown document. */
export function findNothing(root: string, failures: readonly UnreadFile[]): string {
  const note = `There is no Markdown document in ${root}, so there was nothing to check and no report to write.`;
  return join([note, describeUnread(failures), WHO]);
}

/** The answer if the folder cannot be listed. */
export function failListing(root: string, reply: string): string {
  return join([
    `I could not list ${root}, so I checked nothing. The tool said: ${codeSpan(reply.trim())}`,
    WHO,
  ]);
}

/** The answer if a required tool is missing. */
export function missTool(purpose: string, names: string): string {
  return join([`I cannot ${purpose}: I need a tool named ${names}.`, WHO]);
}

/** The answer if no folder is named. */
export function missFolder(): string {
  return join([
    'I do not know which folder to check. Write, for example: The folder is /home/me/handbook.',
    WHO,
  ]);
}

/** The answer to a message that the rules do not cover. */
export function explainMyself(message: string): string {
  return join([
    `You wrote ${codeSpan(shorten(message))}. I cannot answer that: I am a stand-in for a model, a program with fixed rules.`,
    'I can list the folder, read its documents, check their links and headings, and propose a report. Write “check again” to repeat that. For a conversation, use a real model.',
  ]);
}

function describeReading({ root, files, unread }: Work): string {
  const names = files.slice(0, 12).map(file => file.path);
  if (files.length > names.length) names.push(`and ${files.length - names.length} more`);
  const read =
    files.length === 0
      ? `I read no document in ${root}.`
      : `I read ${countDocuments(files.length)} in ${root}: ${names.join(', ')}.`;
  return join([read, describeUnread(unread)]);
}

function describeUnread(unread: readonly UnreadFile[]): string {
  if (unread.length === 0) return '';
  const lines = unread.map(file => `- ${codeSpan(file.path)}: ${codeSpan(file.reason)}`);
  return `Not read:\n${lines.join('\n')}`;
}

function describeFindings({ findings }: Work): string {
  if (findings.length === 0) return 'I found nothing wrong.';
  const kinds = FINDING_KINDS.map(kind => ({
    kind,
    found: findings.filter(finding => finding.kind === kind),
  }))
    .filter(({ found }) => found.length > 0)
    .map(({ kind, found }) => {
      const lines = found.map(({ path, line, message }) => `- ${codeSpan(path)} line ${line}: ${message}`);
      return `${found.length} ${nameKind(kind, found.length)}:\n${lines.join('\n')}`;
    });
  return join([`I have ${countFindings(findings)}.`, ...kinds]);
}

/** Quotes one sentence without markup from each of the first documents that have one. */
function quote({ files }: Work): string {
  const quotes = files
    .map(({ path, text }) => ({ path, sentence: firstSentence(text) }))
    .filter(({ sentence }) => sentence !== undefined)
    .slice(0, QUOTES)
    .map(({ path, sentence }) => `> ${sentence}\n> (${path})`);
  return quotes.length === 0 ? '' : join(['Quotes from the documents:', ...quotes]);
}

function firstSentence(text: string): string | undefined {
  const sentences = new Intl.Segmenter('en', { granularity: 'sentence' });
  return readBlocks(text)
    .blocks.filter(block => block.type === 'prose')
    .flatMap(block => block.text.split('\n'))
    .filter(line => /^\S/.test(line))
    .flatMap(line => [...sentences.segment(line)].map(({ segment }) => segment.trim()))
    .find(sentence => /^\p{Lu}[^`*_<>|[\]\\]{30,200}[.!?]$/u.test(sentence));
}

function ending({ unheard }: Work): string[] {
  const notes = unheard.map(
    message => `While I worked, you wrote ${codeSpan(shorten(message))}; my rules do not cover that.`,
  );
  return [...notes, WHO];
}

function shorten(text: string): string {
  const characters = [...text.trim()];
  return characters.length > 120 ? `${characters.slice(0, 119).join('')}…` : characters.join('');
}

function join(paragraphs: readonly string[]): string {
  return paragraphs.filter(paragraph => paragraph !== '').join('\n\n');
}
