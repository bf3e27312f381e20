import type { AgentSummary } from '../../../protocol/agent-view.ts';
import { describeOutput, readContent } from '../../../protocol/content/read-content.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import type { Usage } from '../../../protocol/turn.ts';
import { nameModels } from '../../name-models.ts';

/** Control characters, invisible format characters and line separators, except the joiners in emoji and scripts. */
const UNSAFE = /(?!\u{200c}|\u{200d}|\n|\t)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Makes untrusted text safe to show: characters that could reorder or hide text, or control a terminal, are spelled
 * out (`␛`, `\u{202e}`). Markup needs no escaping because it becomes a text node.
 */
export function showSafe(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, char => {
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '␡';
    return code < 0x100 ? `\\x${code.toString(16)}` : `\\u{${code.toString(16)}}`;
  });
}

/** The text on one line of at most `length` characters, safe to show. */
export function formatLine(text: string, length: number): string {
  const line = text
    .slice(0, length * 4)
    .replace(/\s+/gu, ' ')
    .trim();
  const cut = line.length > length || text.length > length * 4;
  return showSafe(cut ? `${takeCharacters(line, length).trimEnd()}…` : line);
}

/** The first `length` characters, without splitting a surrogate pair. */
export function takeCharacters(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}

// Not by Intl: its first formatter takes as long as the page's first drawing.
const pad = (part: number): string => String(part).padStart(2, '0');

/** The local time of day of a time in ms since the epoch: `14:05:09`. */
export function formatTimeOfDay(at: number): string {
  const time = new Date(at);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map(pad).join(':');
}

/** The local date and time of a time in ms since the epoch: `2026-02-03 14:05:09`. */
export function formatDay(at: number): string {
  const time = new Date(at);
  const date = [time.getFullYear(), time.getMonth() + 1, time.getDate()].map(pad).join('-');
  return `${date} ${formatTimeOfDay(at)}`;
}

/** The local time of a time in ms since the epoch; with the date if that is not today's. */
export function formatMoment(at: number): string {
  const isToday = new Date(at).toDateString() === new Date().toDateString();
  return isToday ? formatTimeOfDay(at) : formatDay(at);
}

export function formatUsage({ inputTokens, outputTokens, estimated }: Usage, unit: string): string {
  const counted = `${formatNumber(inputTokens)} → ${formatNumber(outputTokens)} ${unit}`;
  return estimated === true ? `${counted} (estimated)` : counted;
}

/** A value as JSON, its numbers without what binary fractions add: `0.0022` for 0.0021999999999999997. */
export function formatState(value: unknown, indent?: number): string {
  const round = (_: string, part: unknown) => (typeof part === 'number' ? roundNumber(part) : part);
  return JSON.stringify(value, round, indent) ?? '';
}

/** The number with the 15 digits that a binary fraction keeps of what a person writes. */
export function roundNumber(value: number): number {
  return Number(value.toPrecision(15));
}

/** How long before `now` a time was, both in ms since the epoch. */
export function formatAgo(at: number, now: number): string {
  return now - at < 5_000 ? 'just now' : `${formatDuration(now - at).replace(/\.\d/, '')} ago`;
}

/** `1 event`, `2 events`; `many` for words with another plural. */
export function formatCount(value: number, one: string, many = `${one}s`): string {
  return `${formatNumber(value)} ${value === 1 ? one : many}`;
}

export function joinFacts(...facts: (string | false | null)[]): string {
  return facts.filter(Boolean).join(' · ');
}

/** An agent of a list in one line: `openai:gpt-5 · version 2 · 3 tools`. */
export function describeListedAgent({ version, models, tools }: AgentSummary): string {
  return joinFacts(
    nameModels(models) || 'no model',
    version !== undefined && `version ${version}`,
    tools !== undefined && formatCount(tools, 'tool'),
  );
}

/** The length of a text in characters: `12 k characters`. */
export function formatLength(length: number): string {
  if (length < 1_000) return `${length} characters`;
  return length < 1_000_000
    ? `${Math.round(length / 1_000)} k characters`
    : `${(length / 1_000_000).toFixed(1)} M characters`;
}

export function formatJson(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}

/** A tool's output: images and files in a few words, texts as they are, other values as indented JSON. */
export function formatOutput(output: JsonValue): string {
  return readContent(output) === undefined ? formatJson(output) : describeOutput(output);
}

export function formatReply(text: string, calls: readonly { name: string; input: unknown }[]): string {
  const lines = calls.map(({ name, input }) => `${name} ${formatJson(input)}`);
  return [...(text === '' ? [] : [text]), ...lines].join('\n');
}

/** The beginning of a value in one line, in a time that does not depend on the size of its texts and lists. */
export function formatPreview(value: JsonValue, length: number): string {
  if (typeof value === 'string') return formatLine(value, length);
  let text = '';
  const write = (part: JsonValue): void => {
    if (typeof part === 'string') text += JSON.stringify(part.slice(0, length + 1));
    else if (typeof part === 'number') text += String(roundNumber(part));
    else if (typeof part !== 'object' || part === null) text += String(part);
    else if (Array.isArray(part)) writeAll('[', part.slice(0, length).entries(), ']', false);
    else writeAll('{', membersOf(part), '}', true);
  };
  const writeAll = (
    begin: string,
    members: Iterable<[name: string | number, member: JsonValue]>,
    end: string,
    isNamed: boolean,
  ): void => {
    text += begin;
    let separator = ' ';
    for (const [name, member] of members) {
      if (text.length > length) return;
      text += separator + (isNamed ? `${JSON.stringify(name)}: ` : '');
      write(member);
      separator = ', ';
    }
    text += separator === ' ' ? end : ` ${end}`;
  };
  write(value);
  return formatLine(text, length);
}

function* membersOf(value: JsonObject): Generator<[string, JsonValue]> {
  for (const name in value) yield [name, value[name] ?? null];
}

const PAGE = 10_000;

/** The first pages of a text, and how many characters are left. A page ends at the end of a line if one is near. */
export function takePages(text: string, count: number): { pages: string[]; left: number } {
  const pages: string[] = [];
  let at = 0;
  while (pages.length < count && at < text.length) {
    const page = takeCharacters(text.slice(at, at + PAGE + 1), PAGE);
    const end = at + page.length < text.length ? page.lastIndexOf('\n') + 1 : 0;
    pages.push(end > PAGE / 2 ? page.slice(0, end) : page);
    at += pages.at(-1)?.length ?? 0;
  }
  return { pages, left: text.length - at };
}
