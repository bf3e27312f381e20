import { messageOf } from '../protocol/error.ts';
import { isJsonObject } from '../protocol/json.ts';
import { hasLabels, type Labels, readGivenLabels } from '../protocol/listing/label.ts';
import { may, ROLES, type Role } from './role.ts';

/** Who sent a request: the name, role and labels of its token, or of what `authorize` returned. */
export type Caller = { name: string; role: Role; labels: Labels };

/** A caller as `authorize` returns it. Without labels it sees every run. */
export type AuthorizedCaller = Omit<Caller, 'labels'> & { labels?: Labels };

/**
 * Finds out who sent a request: the caller, or `null` to refuse it with 401. It must not read the request's body. The
 * caller sees and decides only runs that have its `labels`, and the runs it starts get them. The names of labels that
 * are reserved, such as `chat`, cannot be used. Anything else than such a caller or `null` fails the request with 500.
 */
export type Authorize = (request: Request) => AuthorizedCaller | null | Promise<AuthorizedCaller | null>;

/** The caller of every request to a server without tokens, and to a front without `authorize`. */
export const ANYONE: Caller = { name: 'anyone', role: 'operator', labels: {} };

/** The caller of every request to a server that only shows runs. */
export const READER: Caller = { name: 'anyone', role: 'viewer', labels: {} };

/** The caller whose token is `AGENTCHART_TOKEN` or `--token`. */
export const MAIN_OPERATOR: Caller = { name: 'operator', role: 'operator', labels: {} };

/** Returns `null` for a refused caller. Throws a `TypeError`, for the log alone, if `authorize` returns anything else. */
export async function callerOf(request: Request, authorize?: Authorize): Promise<Caller | null> {
  if (authorize === undefined) return ANYONE;
  const returned: unknown = await authorize(request);
  return returned === null ? null : readCaller(returned);
}

const MEMBERS: readonly string[] = ['name', 'role', 'labels'];

const EXPECTED = `Return { name, role, labels? } with a role of ${ROLES.join(', ')}, or null to refuse the request.`;

/** Names the fault without values, which may be secrets. */
function readCaller(value: unknown): Caller {
  if (!isJsonObject(value)) throw invalidCaller(`it returned ${kindOf(value)}`);
  const unknown = Object.keys(value).filter(member => !MEMBERS.includes(member));
  if (unknown.length > 0)
    throw invalidCaller(`it returned the unknown members ${unknown.map(quote).join(', ')}`);
  const { name, role: given, labels = {} } = value;
  if (typeof name !== 'string' || name === '')
    throw invalidCaller(`the name is ${name === '' ? 'an empty string' : kindOf(name)}`);
  const role = ROLES.find(each => each === given);
  if (role === undefined) throw invalidCaller(`the role is ${describeRole(given)}`);
  try {
    return { name, role, labels: readGivenLabels(labels) };
  } catch (error) {
    throw invalidCaller(messageOf(error));
  }
}

function invalidCaller(fault: string): TypeError {
  return new TypeError(`authorize did not return a caller: ${fault.replace(/\.$/, '')}. ${EXPECTED}`);
}

/** A short word is shown, because it is probably a role of another system; a token is longer. */
function describeRole(role: unknown): string {
  if (typeof role !== 'string') return kindOf(role);
  return /^[a-z][a-z_-]{0,14}$/i.test(role) ? quote(role) : `a string of ${role.length} characters`;
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 64));
}

/** Who is recorded as the sender: the caller's name. Where the caller has no name of its own, the given `by`. */
export function byOf(caller: Caller, by?: string): string | undefined {
  return caller === ANYONE || caller === MAIN_OPERATOR ? by : caller.name;
}

/** Whether the caller may read and decide a run with these labels: one that has all of the caller's labels. */
export function seesRun({ labels }: Caller, run: Labels): boolean {
  return hasLabels(run, labels);
}

type RecordedCaller = Pick<Caller, 'name' | 'labels'>;

/** Whether the caller may use an object: clients by labels, or by name without any; others by labels. */
export function sees(caller: Caller, recorded: RecordedCaller | undefined): boolean {
  const { name, labels } = caller;
  if (may(caller, 'read')) return seesRun(caller, recorded?.labels ?? {});
  if (recorded === undefined) return false;
  const isLabelled = Object.keys(labels).length > 0 || Object.keys(recorded.labels).length > 0;
  if (!isLabelled) return name === recorded.name;
  return hasLabels(labels, recorded.labels) && hasLabels(recorded.labels, labels);
}
