import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { invalidInput } from '../../protocol/error.ts';
import { findMeant } from '../../protocol/options/refuse-unknown.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { packageFolder } from '../options.ts';
import { bold, cyan, dim, Output } from '../render/output.ts';

/** `topic`: its path in docs/, without the extension, such as `guide/approvals`. */
type Page = { section: string; topic: string; title: string; text: string };

/** Prints a page of the package's own docs, or lists them, or those of a section. */
export const docs: Action<'docs'> = ({ topic, json }) => {
  const output = new Output({ json });
  const pages = readPages();
  const words = topic.join(' ');
  const part = pages.filter(({ section }) => section.toLowerCase() === words.trim().toLowerCase());
  const isPage = pages.some(page => isNamed(page, wordOf(words)));
  if (topic.length === 0) list(pages, output);
  else if (part.length > 0 && !isPage) list(part, output);
  else print(findPage(words, pages), output);
  return EXIT.done;
};

/** The pages that contents.json names, in its order. Those that are made from the sources are missing in a checkout. */
function readPages(): Page[] {
  const folder = join(packageFolder(), 'docs');
  const topics = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(file => file.endsWith('.md'))
    .map(file => file.replaceAll('\\', '/').replace(/\.md$/, ''))
    .sort();
  const sections = z
    .array(z.object({ title: z.string(), pages: z.array(z.string()) }))
    .parse(JSON.parse(readFileSync(join(folder, 'contents.json'), 'utf8')));
  return sections.flatMap(({ title: section, pages }) =>
    pages
      .flatMap(named => topics.filter(topic => named === topic || isIn(topic, named)))
      .map(topic => {
        const page = readFileSync(join(folder, `${topic}.md`), 'utf8');
        const text = dropBetween(dropBetween(page, '<!--', '-->'), '<picture>', '</picture>');
        return { section, topic, title: /^# (.+)$/m.exec(text)?.[1] ?? topic, text };
      }),
  );
}

const isIn = (topic: string, named: string) => named.endsWith('*') && topic.startsWith(named.slice(0, -1));

/** The text without what is between the marks, the marks and the line breaks after them. */
function dropBetween(text: string, begin: string, end: string): string {
  let kept = '';
  let at = 0;
  for (;;) {
    const from = text.indexOf(begin, at);
    const to = from < 0 ? -1 : text.indexOf(end, from);
    if (to < 0) return kept + text.slice(at);
    kept += text.slice(at, from);
    at = to + end.length;
    while (text[at] === '\n') at += 1;
  }
}

/** The page of this name or title, or the only one that is near. Throws `input-invalid`, which names others. */
function findPage(words: string, pages: readonly Page[]): Page {
  const word = wordOf(words);
  const named = pages.find(page => page.topic.toLowerCase() === word);
  const titled = named ?? pages.find(page => isNamed(page, word));
  if (titled !== undefined) return titled;
  const near = pages.filter(page => nameOf(page).includes(word) || slugOf(page).includes(word));
  const [only, ...others] = near;
  if (only !== undefined && others.length === 0) return only;
  if (only !== undefined) throw invalidInput(`Several pages are near "${words}": ${nameAll(near)}.`);
  const having = pages.filter(({ text }) => text.toLowerCase().includes(words.toLowerCase()));
  if (having.length > 0)
    throw invalidInput(`No page is named "${words}". In its text it is on: ${nameAll(having)}.`);
  const meant = findMeant(word, pages.map(nameOf));
  const misspelt = pages.find(page => nameOf(page) === meant);
  if (misspelt !== undefined) return misspelt;
  throw invalidInput(
    `No page is named "${words}", and none has it in its text. \`agentchart docs\` lists all.`,
  );
}

const slugOf = ({ title }: Page) => wordOf(title);
const nameOf = ({ topic }: Page) => topic.replace(/^.*\//, '').toLowerCase();
const wordOf = (words: string) => words.trim().toLowerCase().replaceAll(/\s+/g, '-').replace(/\.md$/, '');

/** Whether this is the page's topic, the last part of it, or its title. */
function isNamed(page: Page, word: string): boolean {
  return page.topic.toLowerCase() === word || nameOf(page) === word || slugOf(page) === word;
}

const nameAll = (pages: readonly Page[]) => pages.map(({ topic }) => topic).join(', ');

function list(pages: readonly Page[], output: Output): void {
  const width = Math.max(...pages.map(({ topic }) => topic.length));
  let last: string | undefined;
  for (const { section, topic, title } of pages) {
    if (output.json) output.data({ section, topic, title });
    else {
      if (section !== last) {
        if (last !== undefined) output.line();
        output.line(bold(section));
      }
      output.line('  ', cyan(topic.padEnd(width)), '  ', title);
      last = section;
    }
  }
  if (output.json) return;
  output.line();
  output.line(dim('To read one: agentchart docs TOPIC'));
}

function print({ section, topic, title, text }: Page, output: Output): void {
  if (output.json) return output.data({ section, topic, title, text });
  let isCode = false;
  for (const line of text.trimEnd().split('\n')) {
    const isFence = line.startsWith('```');
    if (isFence) isCode = !isCode;
    if (isFence) output.line(dim(line));
    else if (isCode) output.line(cyan(line));
    else output.line(line.startsWith('#') ? bold(line) : line);
  }
}
