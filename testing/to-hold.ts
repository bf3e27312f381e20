import type { PathEntry } from '../explore/explorer.ts';
import type { ExplorationReport } from '../explore/report.ts';
import { invalidInput } from '../protocol/error.ts';

/** What `expect.extend` of vitest and of Jest takes. */
type Matched = { pass: boolean; message(): string };

/**
 * A matcher for what `explore` returns: no invariant breaks, every rule is proved, and every walk came to its end. Rules in
 * the shadow, and those that are functions, do not count. Where
 * this entry is imported by a test of vitest, `expect` has it; elsewhere, `expect.extend({ toHold })`.
 *
 * @example
 * expect(explore(agent, { never: 'refund unless approved by manager', maxStates: 40_000 })).toHold();
 */
export function toHold(report: ExplorationReport): Matched {
  if (!isReport(report)) throw invalidInput('toHold: expected what explore() or exploreFrom() returns.');
  const faults = listFaults(report);
  const { agent, rules, states } = report;
  const proved = rules.map(({ name, verdict }) => `rule ${name}: ${verdict}`);
  return {
    pass: faults.length === 0,
    message: () =>
      faults.length > 0
        ? `Expected "${agent}" to hold, in ${states} states:\n\n${faults.join('\n\n')}`
        : [`Expected "${agent}" not to hold. All invariants hold in ${states} states.`, ...proved].join('\n'),
  };
}

function isReport(report: unknown): report is ExplorationReport {
  return typeof report === 'object' && report !== null && 'breaches' in report && 'rules' in report;
}

function listFaults({ breaches, rules, unfinished }: ExplorationReport): string[] {
  const broken = breaches.map(
    ({ invariant, message, path }) => `invariant "${invariant}" breaks: ${message}${tellPath(path)}`,
  );
  const ruled = rules.flatMap(({ name, verdict, message = '', path = [], only }) => {
    if (verdict === 'proved' || only !== undefined) return [];
    if (verdict === 'broken') return [`rule "${name}" is broken: ${message}${tellPath(path)}`];
    return [`rule "${name}" is not proved: ${message}`];
  });
  const open = unfinished.map(({ paths, advice }) => `not walked to the end: ${paths}. ${advice}`);
  return [...broken, ...ruled, ...open];
}

function tellPath(path: readonly PathEntry[]): string {
  const steps = path.map((entry, index) => `\n  ${String(index).padStart(2)} ${tell(entry)}`);
  return steps.length === 0 ? '' : `\nThe shortest path to it:${steps.join('')}`;
}

function tell({ event, state }: PathEntry): string {
  const about = 'callId' in event ? ` ${event.callId}` : '';
  const who = 'by' in event && event.by !== undefined ? ` by ${event.by}` : '';
  const decision = event.type === 'approval.decided' ? ` ${event.decision.type}` : '';
  const calls =
    event.type === 'turn.completed' && event.calls.length > 0
      ? ` with calls of ${event.calls.map(({ name }) => name).join(', ')}`
      : '';
  return `${event.type}${about}${decision}${calls}${who} → ${state}`;
}

type Extensible = { extend(matchers: { toHold: typeof toHold }): void };

function isExtensible(value: unknown): value is Extensible {
  return typeof value === 'function' && 'extend' in value && typeof value.extend === 'function';
}

/** Where a test of vitest runs, its `expect` is here. */
const expectOfVitest: unknown = Reflect.get(globalThis, Symbol.for('expect-global'));
if (isExtensible(expectOfVitest)) expectOfVitest.extend({ toHold });
