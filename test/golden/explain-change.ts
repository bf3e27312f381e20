import { chartIdentity } from '../../machines/snapshot.ts';
import { statePath } from '../../machines/step.ts';
import { findDifference } from '../../protocol/content/find-difference.ts';
import { JOURNAL_FORMAT, type RunEvent, runEventSchema } from '../../protocol/event.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue, toJson } from '../../protocol/json.ts';
import { foldAll, type GoldenJournal, hashStanding, standingOf } from './golden-journal.ts';

export const REGENERATE =
  'If this is meant: write them again with `node test/golden/write-golden.ts`, and read what `git diff test/golden` shows.';

/** How the current code folds a golden journal differently than recorded; empty when nothing changed. */
export function explainChange(name: string, golden: GoldenJournal): string[] {
  const events = golden.entries.map(({ event }) => event);
  const unknown = events.flatMap((event, index) => {
    const problem = findUnknown(event);
    return problem === null ? [] : [`${name}: entry ${index + 1} (${String(event.type)}) ${problem}`];
  });
  if (unknown.length > 0) return [...unknown, adviseFormat(golden)];
  const changes = explainStates(name, golden, withPresentChart(events as RunEvent[]));
  return changes.length === 0 ? [] : [...changes, adviseChart(golden)];
}

/** Returns a problem if the event schema does not read the event completely, otherwise `null`. */
export function findUnknown(event: JsonObject): string | null {
  const parsed = runEventSchema.safeParse(event);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return `is no event any more: ${issue?.path.join('.')} ${issue?.message}`;
  }
  const read = toJson(parsed.data);
  if (canonicalJson(read) === canonicalJson(event)) return null;
  return `has ${findDifference(event, read)}, which is not read any more`;
}

/** The chart identity is compared separately: only the folded states are compared here. */
function withPresentChart([started, ...rest]: RunEvent[]): RunEvent[] {
  return started?.type === 'run.started' ? [{ ...started, chart: chartIdentity() }, ...rest] : rest;
}

function explainStates(name: string, golden: GoldenJournal, events: RunEvent[]): string[] {
  let states: ReturnType<typeof foldAll>;
  try {
    states = foldAll(events);
  } catch (error) {
    return [`${name}: ${String(error)}`];
  }
  for (const [index, { path, hash }] of golden.entries.entries()) {
    const state = states[index];
    if (state === undefined || hashStanding(state) === hash) continue;
    const where = `${name}: entry ${index + 1} (${String(events[index]?.type)})`;
    const now = statePath(state);
    const moved =
      now === path ? `leads to ${path}, and the state is another` : `leads to ${now}, and led to ${path}`;
    return [`${where} ${moved}`, ...explainEnd(golden, states)];
  }
  return [];
}

function explainEnd(golden: GoldenJournal, states: ReturnType<typeof foldAll>): string[] {
  const last = states.at(-1);
  if (last === undefined) return [];
  const standing = standingOf(last);
  const difference = findDifference(golden.end, standing);
  if (difference === null) return ['  the end is the same'];
  const [was, is] = [valueAt(golden.end, difference), valueAt(standing, difference)];
  return [`  at the end ${difference} is ${shorten(is)}, and was ${shorten(was)}`];
}

function valueAt(value: JsonValue | undefined, path: string): JsonValue | undefined {
  return path.split('.').reduce<JsonValue | undefined>((inner, key) => {
    if (Array.isArray(inner)) return inner[Number(key)];
    return isJsonObject(inner) ? inner[key] : undefined;
  }, value);
}

function shorten(value: JsonValue | undefined): string {
  return (JSON.stringify(value) ?? 'missing').slice(0, 120);
}

function adviseFormat({ format }: GoldenJournal): string {
  const raise =
    format === JOURNAL_FORMAT
      ? `Journals that were written before are not read as they were: raise JOURNAL_FORMAT (it is ${JOURNAL_FORMAT}) and write a migration. `
      : '';
  return raise + REGENERATE;
}

function adviseChart({ chart }: GoldenJournal): string {
  const { version } = chartIdentity();
  const raise =
    chart.version === version
      ? `The same events lead elsewhere: raise CHART_VERSION (it is ${version}, as in the golden journals). `
      : '';
  return raise + REGENERATE;
}

/** Which events of the vocabulary changed. */
export function explainFormat(was: JsonObject, is: JsonObject): string[] {
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].sort().flatMap(type => {
    const [before, after] = [was[type], is[type]];
    if (before === undefined) return [`${type} is new`];
    if (after === undefined) return [`${type} is gone`];
    const difference = findDifference(before, after);
    return difference === null ? [] : [`${type} changed at ${difference.replaceAll('properties.', '')}`];
  });
}
