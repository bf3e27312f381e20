import { chartIdentity, compareChart } from '../../machines/snapshot.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import { findDifference } from '../../protocol/content/find-difference.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import {
  JOURNAL_FORMAT,
  type QualifiedCall,
  type RunEvent,
  type RunStarted,
  runEventSchema,
} from '../../protocol/event.ts';
import {
  canonicalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitUndefined,
  toJson,
} from '../../protocol/json.ts';
import type { RunRecord } from '../../protocol/store.ts';

/** The versions from which or to which a step migrates. Versions not given match any, or stay unchanged. */
export type JournalVersion = {
  format?: number;
  chart?: number;
  /** The agent's `version`. */
  agent?: string;
};

/** One migration step from a version to a later one. */
export type JournalMigration = {
  from: JournalVersion;
  to: JournalVersion;
  /**
   * Converts the events of a full journal, as unchecked JSON beginning with `run.started`, without claims and notes.
   * Returns the events of the new journal; the engine sets their versions. Must be pure.
   */
  migrate(events: readonly JsonObject[]): readonly JsonObject[];
};

/** The steps of this release from earlier charts and formats; an agent's own steps are tried first. */
const OWN_MIGRATIONS: readonly JournalMigration[] = [];

export type Versions = { format: number; chart: number; agent?: string };

/** The first matching step at each version, each at most once; `null` if they do not lead to this program's versions. */
export function findSteps(
  from: Versions,
  migrations: readonly JournalMigration[],
): readonly JournalMigration[] | null {
  const left = [...migrations, ...OWN_MIGRATIONS];
  const steps: JournalMigration[] = [];
  for (let at = from; ; ) {
    const place = left.findIndex(step => fits(step.from, at));
    const [step] = place < 0 ? [] : left.splice(place, 1);
    if (step === undefined) return isCurrent(at) && steps.length > 0 ? steps : null;
    steps.push(step);
    at = { ...at, ...step.to };
  }
}

function fits(from: JournalVersion, at: Versions): boolean {
  const named = (['format', 'chart', 'agent'] as const).filter(name => from[name] !== undefined);
  return named.length > 0 && named.every(name => from[name] === at[name]);
}

function isCurrent({ format, chart }: Versions): boolean {
  return format === JOURNAL_FORMAT && chart === chartIdentity().version;
}

/** What can continue a migrated run: the versions of its agent that are here (default any), and its migrations. */
export type MigrationTarget = { versions?: readonly string[]; migrations: readonly JournalMigration[] };

/** Whether migrations lead from a run's chart and agent version to this chart and one of `versions`. False without a chart. */
export function canMigrate(
  { chart, agentVersion }: Pick<RunRecord, 'chart' | 'agentVersion'>,
  { versions, migrations }: MigrationTarget,
): boolean {
  if (chart === undefined) return false;
  const relation = compareChart(chart);
  if (relation !== 'same' && relation !== 'older') return false;
  const agent = omitUndefined({ agent: agentVersion });
  const steps = findSteps({ format: JOURNAL_FORMAT, chart: chart.version, ...agent }, migrations);
  if (steps === null) return false;
  const reached = steps.findLast(({ to }) => to.agent !== undefined)?.to.agent ?? agentVersion;
  return reached === undefined || versions === undefined || versions.includes(reached);
}

/** Returns the versions in an unchecked `run.started`; `NaN` for missing ones. */
export function versionsOf({ format, chart, agent }: JsonObject): Versions {
  const versionIn = (value: JsonValue | undefined) => (isJsonObject(value) ? value.version : undefined);
  const numberOf = (value: JsonValue | undefined) => (typeof value === 'number' ? value : Number.NaN);
  const version = versionIn(agent);
  return {
    format: numberOf(format),
    chart: numberOf(versionIn(chart)),
    ...(typeof version === 'string' && { agent: version }),
  };
}

/** Applies the steps to a journal and validates the result. Throws `input-invalid` for an invalid result. */
export function migrateJournal(
  journal: readonly JsonValue[],
  steps: readonly JournalMigration[],
): { started: RunStarted; events: RunEvent[] } {
  const before = journal.map(toObject).filter(({ type }) => !isLeftBehind(type));
  const after = steps.reduce<readonly JsonObject[]>(takeStep, before);
  const [started, ...events] = renewDigests(after.map(readEvent));
  if (started?.type === 'run.started') return { started: { ...started, chart: chartIdentity() }, events };
  throw damageError(1, `is ${started?.type ?? 'missing'}; expected run.started`);
}

/** Recomputes the digests of calls whose input a step changed, and updates the decisions that refer to them. */
function renewDigests(events: readonly RunEvent[]): RunEvent[] {
  const renewed = new Map<string, { was: string; is: string }>();
  const renew = (call: QualifiedCall): QualifiedCall => {
    const is = digestCall(call.name, call.input);
    if (is === call.digest) return call;
    renewed.set(call.callId, { was: call.digest, is });
    return { ...call, digest: is };
  };
  return events.map(event => {
    switch (event.type) {
      case 'run.started':
        return event.onlyCall === undefined ? event : { ...event, onlyCall: renew(event.onlyCall) };
      case 'turn.completed':
      case 'turn.edited':
      case 'transcript.edited':
        return { ...event, calls: event.calls.map(renew) };
      case 'call.edited': {
        const { was, is } = renewed.get(event.callId) ?? {};
        const digest = is === undefined || event.digest !== was ? event.digest : is;
        return { ...event, digest, call: renew(event.call) };
      }
      case 'approval.decided': {
        const { was, is } = renewed.get(event.callId) ?? {};
        return is === undefined || event.digest !== was ? event : { ...event, digest: is };
      }
      default:
        return event;
    }
  });
}

/** Claims, notes and redactions concern only the old journal. */
function isLeftBehind(type: JsonValue | undefined): boolean {
  return type === 'run.claimed' || type === 'run.noted' || type === 'run.redacted';
}

function takeStep(events: readonly JsonObject[], step: JournalMigration): readonly JsonObject[] {
  const migrated = step.migrate(structuredClone(events) as JsonObject[]);
  if (!Array.isArray(migrated))
    throw damageError(1, 'is missing: a migration must return an array of events');
  const { format, chart, agent } = step.to;
  return migrated.map(toObject).map(event => {
    if (event.type !== 'run.started') return event;
    const named = isJsonObject(event.agent) ? event.agent : {};
    const to = {
      format,
      chart: chart === undefined ? undefined : { version: chart, hash: '' },
      agent: agent === undefined ? undefined : { ...named, version: agent },
    };
    return { ...event, ...omitUndefined(to) };
  });
}

function toObject(event: unknown, index: number): JsonObject {
  let json: unknown;
  try {
    json = toJson(event);
  } catch (error) {
    throw damageError(index + 1, `is not JSON: ${messageOf(error)}`);
  }
  if (isJsonObject(json)) return json;
  throw damageError(index + 1, 'is not an event: expected an object with a type');
}

function readEvent(event: JsonObject, index: number): RunEvent {
  const parsed = runEventSchema.safeParse(event);
  const what = `(${String(event.type)}) is not an event of this version`;
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw damageError(index + 1, `${what}: ${issue?.path.join('.')} ${issue?.message}`);
  }
  const read = toJson(parsed.data);
  if (canonicalJson(read) === canonicalJson(event)) return parsed.data;
  throw damageError(index + 1, `${what}: it has the unknown member ${findDifference(event, read)}`);
}

function damageError(entry: number, problem: string): EngineError {
  const message = `The migrated journal cannot be used: entry ${entry} ${problem}.`;
  return new EngineError('input-invalid', message, { entry });
}
