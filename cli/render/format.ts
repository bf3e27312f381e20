import { isAbsolute, relative, resolve, sep } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import type { RunEvent } from '../../protocol/event.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import * as shared from '../../visualizer/describe-event.ts';

export { showSafely } from '../../text/show-safely.ts';

export function isDatabase(store: string): boolean {
  return /^postgres(ql)?:\/\//i.test(store);
}

/** A store as people read it: a path, or the address of a database without its password. */
export function formatStore(store: string): string {
  return isDatabase(store) ? store.replace(/:\/\/([^:@/]*):[^@/]*@/, '://$1:***@') : formatPath(store);
}

/** A path as people read it: relative to the working directory, or absolute if it is more than one level above. */
export function formatPath(path: string): string {
  const absolute = resolve(path);
  const short = relative(process.cwd(), absolute) || '.';
  return isAbsolute(short) || short.startsWith(`..${sep}..`) ? absolute : short;
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Formats a duration in ms: `12 ms`, `1.4 s`, `3 min`, `2 h`, `5 days`. */
export function formatSpan(ms: number): string {
  const [seconds, minutes, hours] = [ms / 1000, ms / 60_000, ms / 3_600_000];
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (minutes < 60) return `${Math.round(minutes)} min`;
  if (hours < 48) return `${Math.round(hours)} h`;
  return `${Math.round(hours / 24)} days`;
}

/** Formats the distance of `at` from `now`, both in ms since the epoch: `2 min ago`, `in 1 h`. */
export function formatDistance(at: number, now: number): string {
  return at <= now ? `${formatSpan(now - at)} ago` : `in ${formatSpan(at - now)}`;
}

export function formatClock(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}

/** A value in full, one member per line; lines of strings behind a bar, so that they pass for no member. */
export function formatValue(value: JsonValue, indent = ''): string[] {
  if (Array.isArray(value) && value.length > 0) {
    return value.flatMap(entry => formatMember('-', entry, indent));
  }
  if (isJsonObject(value) && Object.keys(value).length > 0) {
    return Object.entries(value).flatMap(([key, entry]) => formatMember(`${nameKey(key)}:`, entry, indent));
  }
  if (typeof value === 'string' && value.includes('\n')) {
    return value.split(/\r?\n/).map(line => `${indent}│ ${line}`);
  }
  return [`${indent}${JSON.stringify(value)}`];
}

function formatMember(label: string, value: JsonValue, indent: string): string[] {
  const lines = formatValue(value, `${indent}  `);
  const [first = ''] = lines;
  const isShort =
    typeof value !== 'object' || value === null || lines[0]?.trim() === '[]' || lines[0]?.trim() === '{}';
  if (lines.length === 1 && isShort) return [`${indent}${label} ${first.trimStart()}`];
  return [`${indent}${label}`, ...lines];
}

function nameKey(key: string): string {
  return /^[\w-]+$/.test(key) ? key : JSON.stringify(key);
}

/** Cuts a text to one line of `length` characters and notes how many were cut. */
export function shortenCell(text: string, length: number): string {
  const line = stripVTControlCharacters(text).replace(/\s+/gu, ' ').trim();
  if (line.length <= length) return line;
  return `${line.slice(0, length).trimEnd()}… (${line.length - length} more characters)`;
}

/** Characters that JSON does not escape and that a terminal or line reader may interpret. */
const UNESCAPED_BY_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Serializes a value as JSON that is safe to print. `indent` is the number of spaces per level; 0 gives one line. */
export function formatSafeJson(value: unknown, indent = 0): string {
  const escapeChar = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value, null, indent).replace(UNESCAPED_BY_JSON, escapeChar);
}

export {
  describeBreak,
  describePlayed,
  describeUsage,
  INTERRUPTED,
} from '../../visualizer/describe-event.ts';
export { nameModels } from '../../visualizer/name-models.ts';

const FORMAT: shared.EventFormat = {
  shorten: shortenCell,
  formatSpan,
  formatClock,
  nameCall: callId => callId,
};

/** Describes an event in one line for the terminal. Text in it is as it came: the caller makes it safe. */
export function eventLine(event: RunEvent): string {
  return shared.describeEvent(event, FORMAT);
}

export function turnLine(event: Extract<RunEvent, { type: 'turn.completed' }>): string {
  return shared.describeTurnEvent(event, FORMAT);
}

export function failedTurnLine(event: Extract<RunEvent, { type: 'turn.failed' }>): string {
  return shared.describeFailedCall(event, FORMAT);
}

export function showValue(value: JsonValue, length?: number): string {
  return shared.describeValue(value, FORMAT, length);
}
