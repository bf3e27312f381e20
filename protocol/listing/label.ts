import * as z from 'zod/mini';
import { EngineError } from '../error.ts';
import type { Item } from '../item.ts';
import { isJsonObject } from '../json.ts';
import { isRedaction } from '../redaction.ts';
import { lazySchema } from '../schemas/lazy-schema.ts';
import { wordsOfUser } from './words-of-user.ts';

/** The labels of a run, such as `{ user: '7', tenant: 'a' }`. */
export type Labels = Readonly<Record<string, string>>;

export const MOST_LABELS = 16;
const LONGEST_NAME = 64;
const LONGEST_VALUE = 256;
const LONGEST_TITLE = 200;

const UNPRINTABLE = /[\p{Cc}\p{Cs}]/u;

/** Labels: at most 16, with names of up to 64 and values of up to 256 characters, neither empty. */
export const labelsSchema = lazySchema(() => z.custom<Labels>(value => findLabelFault(value) === null));

function findLabelFault(value: unknown): string | null {
  if (!isJsonObject(value)) return 'expected an object of strings, such as { "user": "7" }';
  const labels = Object.entries(value);
  if (labels.length > MOST_LABELS) return `got ${labels.length}, but at most ${MOST_LABELS} are allowed`;
  for (const [name, text] of labels) {
    const quoted = JSON.stringify(name.slice(0, LONGEST_NAME));
    if (!isLine(name, LONGEST_NAME) || name.includes('=') || name === '__proto__')
      return `the name ${quoted} must have 1 to ${LONGEST_NAME} characters, without "=" and control characters`;
    if (typeof text !== 'string') return `the value of ${quoted} is not a string`;
    if (!isLine(text, LONGEST_VALUE))
      return `the value of ${quoted} must have 1 to ${LONGEST_VALUE} characters, without control characters`;
  }
  return null;
}

/** Returns labels from outside. Throws `input-invalid` for a value that is not labels. */
export function readLabels(value: unknown): Labels {
  const fault = findLabelFault(value);
  if (fault === null) return value as Labels;
  throw new EngineError('input-invalid', `The labels are invalid: ${fault}.`);
}

/** Reads `NAME=VALUE`. Throws `input-invalid` for a text without "=", a name given twice, and labels out of bounds. */
export function parseLabels(texts: readonly string[]): Labels {
  const pairs = texts.map((text): [string, string] => {
    const at = text.indexOf('=');
    if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
    throw new EngineError(
      'input-invalid',
      `A label must be NAME=VALUE, such as user=7; got ${JSON.stringify(text.slice(0, LONGEST_NAME))}.`,
    );
  });
  const labels = readLabels(Object.fromEntries(pairs));
  if (Object.keys(labels).length === pairs.length) return labels;
  throw new EngineError('input-invalid', 'A label is given twice. A run has one value for each name.');
}

/** Whether `labels` has all of `wanted`, with the same values. */
export function hasLabels(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(
    ([name, value]) => Object.hasOwn(labels, name) && labels[name] === value,
  );
}

/** The id of a thread: 1 to 256 characters without control characters. */
export const threadSchema = lazySchema(() =>
  z.string().check(
    z.refine(
      // Addresses cannot have a part that is "." or "..".
      id => isLine(id, LONGEST_VALUE) && id !== '.' && id !== '..',
      `expected 1 to ${LONGEST_VALUE} characters without control characters, and neither "." nor ".."`,
    ),
  ),
);

/** Returns the id of a thread from outside. Throws `input-invalid` for a value that is none. */
export function readThreadId(value: unknown): string {
  const parsed = threadSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new EngineError(
    'input-invalid',
    `The id of the thread is invalid: ${parsed.error.issues[0]?.message}.`,
  );
}

/** The title of a run: 1 to 200 characters without control characters. */
export const titleSchema = lazySchema(() =>
  z
    .string()
    .check(
      z.refine(
        title => isLine(title, LONGEST_TITLE),
        `expected 1 to ${LONGEST_TITLE} characters without control characters`,
      ),
    ),
);

/** Returns a title from outside. Throws `input-invalid` for a value that is not a title. */
export function readTitle(value: unknown): string {
  const parsed = titleSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new EngineError('input-invalid', `The title is invalid: ${parsed.error.issues[0]?.message}.`);
}

/**
 * The given title, else the first line of what the user said after the model's last answer, of up to 200 characters;
 * empty if redacted. What clients add to the user's messages is not a title, unless there is nothing else.
 */
export function titleOf({ title, input }: { title?: string; input: readonly Item[] }): string {
  const text = title ?? wordsOfUser(input);
  return isRedaction(text) ? '' : firstLine(text);
}

function firstLine(text: string): string {
  const [line = ''] = text
    .trimStart()
    .slice(0, LONGEST_TITLE + 1)
    .split(/[\r\n]/, 1);
  const isCut = line.length > LONGEST_TITLE;
  const shown = isCut ? `${line.slice(0, LONGEST_TITLE - 1)}…` : line;
  return shown
    .replaceAll(/\p{Cc}/gu, ' ')
    .toWellFormed()
    .trim();
}

function isLine(text: string, most: number): boolean {
  return text !== '' && text.length <= most && !UNPRINTABLE.test(text);
}
