/**
 * Who may use the server: `caller.ts` says what each role may do, `tokens.ts` finds the caller of a token, and
 * `gate.ts` checks every request. `sessions.ts` and `sign-in-pace.ts` are for signing in on the page.
 */

/** What a token may do: everything; read runs and decide calls; read runs; or use `/v1` only. */
export const ROLES = ['operator', 'approver', 'viewer', 'client'] as const;
export type Role = (typeof ROLES)[number];

/** Who sent a request: the name, role and labels of its token. */
export type Caller = { name: string; role: Role; labels: Readonly<Record<string, string>> };

/** The part of a caller that is journaled with its requests. */
type RecordedCaller = Pick<Caller, 'name' | 'labels'>;

/** The caller of every request to a server without tokens. */
export const ANYONE: Caller = { name: 'anyone', role: 'operator', labels: {} };

/** The caller whose token is `AGENTCHART_TOKEN` or `--token`. */
export const MAIN_OPERATOR: Caller = { name: 'operator', role: 'operator', labels: {} };

/** The commands on runs that decide calls; approvers may submit no others. */
const DECISIONS: readonly string[] = ['approve', 'reject', 'answer', 'resolve'];

/** Whether the caller may submit a command of this type to a run. */
export function mayCommand({ role }: Caller, type: string): boolean {
  return role === 'operator' || (role === 'approver' && DECISIONS.includes(type));
}

/** Whether the caller may send a request of this kind. Lists of commands are also checked one by one. */
export function mayRequest(
  caller: Caller,
  { method, path, isUpgrade }: { method: string; path: string; isUpgrade: boolean },
): boolean {
  if (caller.role === 'operator') return true;
  if (caller.role === 'client') return path.startsWith('/v1/');
  if (method === 'GET' || method === 'HEAD') return !isUpgrade;
  const [, command] = (method === 'POST' && /^\/runs\/[^/]+\/([a-z]+)$/.exec(path)) || [];
  if (command === undefined) return false;
  return mayCommand(caller, command) || (command === 'commands' && caller.role === 'approver');
}

/**
 * Whether the caller may use what `recorded` has made. Clients share what tokens with the same labels have made; a
 * token without labels shares it with tokens of its name. Other roles see everything.
 */
export function sees({ name, role, labels }: Caller, recorded: RecordedCaller | undefined): boolean {
  if (role !== 'client') return true;
  if (recorded === undefined) return false;
  const keys = Object.keys(labels);
  if (keys.length !== Object.keys(recorded.labels).length) return false;
  if (keys.length === 0) return name === recorded.name;
  return keys.every(key => Object.hasOwn(recorded.labels, key) && recorded.labels[key] === labels[key]);
}
