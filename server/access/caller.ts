/**
 * Who may use the server: `caller.ts` defines the permissions of each role, `tokens.ts` finds the caller of a token, and
 * `gate.ts` checks every request. `sessions.ts` and `sign-in-pace.ts` are for signing in on the page.
 */

import { hasLabels, type Labels } from '../../protocol/listing/label.ts';
import { ApiError } from '../error-envelope.ts';

/** What a token may do: everything; read runs and decide calls; read runs; or use `/v1` only. */
export const ROLES = ['operator', 'approver', 'viewer', 'client'] as const;
export type Role = (typeof ROLES)[number];

/** Who sent a request: the name, role and labels of its token. */
export type Caller = { name: string; role: Role; labels: Labels };

/**
 * Finds out who sent a request: the caller, or `null` to refuse it with 401. It must not read the request's body. The
 * caller sees and decides only runs that have its `labels`, and the runs it starts get them.
 */
export type Authorize = (request: Request) => Caller | null | Promise<Caller | null>;

/** The part of a caller that is journaled with its requests. */
type RecordedCaller = Pick<Caller, 'name' | 'labels'>;

/** The caller of every request to a server without tokens. */
export const ANYONE: Caller = { name: 'anyone', role: 'operator', labels: {} };

/** The caller of every request to a server that only shows runs. */
export const READER: Caller = { name: 'anyone', role: 'viewer', labels: {} };

/** The caller whose token is `AGENTCHART_TOKEN` or `--token`. */
export const MAIN_OPERATOR: Caller = { name: 'operator', role: 'operator', labels: {} };

/** The commands on runs that decide calls; approvers may submit no others. */
const DECISIONS: readonly string[] = ['approve', 'reject', 'answer', 'resolve'];

/** Whether the caller may submit a command of this type to a run. */
export function mayCommand({ role }: Caller, type: string): boolean {
  return role === 'operator' || (role === 'approver' && DECISIONS.includes(type));
}

/** The APIs of a server: those about runs, and those below `/v1`. */
export type Area = 'runs' | 'v1';

/** Whether the caller may send a request of this kind to an area. Lists of commands are also checked one by one. */
export function mayRequest(
  caller: Caller,
  { method, path, area, isUpgrade }: { method: string; path: string; area: Area; isUpgrade: boolean },
): boolean {
  if (caller.role === 'operator') return true;
  if (caller.role === 'client') return area === 'v1';
  if (method === 'GET' || method === 'HEAD') return !isUpgrade;
  const [, command] = (method === 'POST' && /\/runs\/[^/]+\/([a-z]+)$/.exec(path)) || [];
  if (area === 'v1' || command === undefined) return false;
  return mayCommand(caller, command) || (command === 'commands' && caller.role === 'approver');
}

/** The labels and the caller's. Throws `forbidden` where they contradict each other. */
export function withLabelsOf({ labels: own }: Caller, labels: Labels): Labels {
  const other = Object.keys(own).find(name => Object.hasOwn(labels, name) && labels[name] !== own[name]);
  if (other === undefined) return { ...labels, ...own };
  throw new ApiError('forbidden', `Your runs have another value for the label "${other}". Leave it out.`);
}

/** Whether the caller may read and decide a run with these labels: one that has all of the caller's labels. */
export function seesRun({ labels }: Caller, run: Labels): boolean {
  return hasLabels(run, labels);
}

/**
 * Whether the caller may use an object that `recorded` created. Clients share the objects of tokens with the same labels; a
 * token without labels shares only with tokens of the same name. Other roles see every object that has their labels.
 */
export function sees(caller: Caller, recorded: RecordedCaller | undefined): boolean {
  const { name, role, labels } = caller;
  if (role !== 'client') return seesRun(caller, recorded?.labels ?? {});
  if (recorded === undefined) return false;
  const isLabelled = Object.keys(labels).length > 0 || Object.keys(recorded.labels).length > 0;
  if (!isLabelled) return name === recorded.name;
  return hasLabels(labels, recorded.labels) && hasLabels(recorded.labels, labels);
}
