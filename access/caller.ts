import { messageOf } from '../protocol/error.ts';
import type { Known } from '../protocol/event.ts';
import { isJsonObject, omitUndefined } from '../protocol/json.ts';
import { hasLabels, type Labels, readLabels } from '../protocol/listing/label.ts';
import type { Person, RunCommand } from '../protocol/run-command.ts';
import { readGroups } from '../protocol/tool.ts';
import { may, ROLES, type Role } from './role.ts';

/**
 * Who sent a request: of its token, or of what `authorize` returned. `known`: how the name is known, for the journal.
 * `token`: the name of its token, if that is not the caller's.
 */
export type Caller = {
  name: string;
  role: Role;
  groups: readonly string[];
  labels: Labels;
  known: Known;
  token?: string;
};

/**
 * A caller as `authorize` returns it. `role`: the default is `requester`, who decides nothing; `client` for `/v1`.
 * `groups`: those in whose name it may decide, as approvals name them. Without labels it sees every run, a requester only
 * those that it started.
 */
export type AuthorizedCaller = { name: string; role?: Role; groups?: readonly string[]; labels?: Labels };

/**
 * Finds out who sent a request: the caller, or `null` to refuse it with 401. It must not read the request's body. The
 * caller sees and decides only runs that have its `labels`, and the runs it starts get them. Anything else than
 * such a caller or `null` fails the request with 500.
 */
export type Authorize = (request: Request) => AuthorizedCaller | null | Promise<AuthorizedCaller | null>;

/** The caller of every request to a server without tokens, and to a front without `authorize`. */
export const ANYONE: Caller = {
  name: 'anyone',
  role: 'operator',
  groups: [],
  labels: {},
  known: 'asserted',
};

/** The caller of every request to a server that only shows runs. */
export const READER: Caller = { ...ANYONE, role: 'viewer' };

/** The caller whose token is `AGENTCHART_TOKEN` or `--token`. */
export const MAIN_OPERATOR: Caller = { ...ANYONE, name: 'operator' };

/** Returns `null` for a refused caller. Throws a `TypeError`, for the log alone, if `authorize` returns anything else. */
export async function callerOf(
  request: Request,
  authorize: Authorize | undefined,
  defaultRole: Role = 'requester',
): Promise<Caller | null> {
  if (authorize === undefined) return ANYONE;
  const returned: unknown = await authorize(request);
  return returned === null ? null : readCaller(returned, defaultRole);
}

const MEMBERS: readonly string[] = ['name', 'role', 'groups', 'labels'];

const EXPECTED = `Return { name, role?, groups?, labels? } with a role of ${ROLES.join(', ')}, or null to refuse the request.`;

/** Names the fault without values, which may be secrets. */
function readCaller(value: unknown, defaultRole: Role): Caller {
  if (!isJsonObject(value)) throw invalidCaller(`it returned ${kindOf(value)}`);
  const unknown = Object.keys(value).filter(member => !MEMBERS.includes(member));
  if (unknown.length > 0)
    throw invalidCaller(`it returned the unknown members ${unknown.map(quote).join(', ')}`);
  const { name, role: given = defaultRole, groups = [], labels = {} } = value;
  if (typeof name !== 'string' || name === '')
    throw invalidCaller(`the name is ${name === '' ? 'an empty string' : kindOf(name)}`);
  const role = ROLES.find(each => each === given);
  if (role === undefined) throw invalidCaller(`the role is ${describeRole(given)}`);
  if (!Array.isArray(groups)) throw invalidCaller(`the groups are ${kindOf(groups)}, not a list of names`);
  const read = groups.length === 0 ? [] : readGroups(groups);
  if (read === undefined) throw invalidCaller('the groups are not a list of names');
  try {
    return { name, role, groups: read, labels: labelsFor(role, name, readLabels(labels)), known: 'app' };
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

/** The label of what a requester starts: by it the requester finds its own runs, and no others. */
const REQUESTER_LABEL = 'requester';

/** The labels of a caller's runs. Throws `input-invalid` for a requester whose name no label can have. */
export function labelsFor(role: Role, name: string, labels: Labels): Labels {
  return role === 'requester' ? readLabels({ ...labels, [REQUESTER_LABEL]: name }) : labels;
}

/**
 * Who is recorded as the sender: the caller. One without a name of its own (no token, or the main one) is who the request
 * says, with the groups that it says.
 */
export function personOf(
  caller: Caller,
  { by, groups }: { by?: string | undefined; groups?: readonly string[] | undefined } = {},
): Person | undefined {
  const { name, known } = caller;
  if (known !== 'asserted') return { name, groups: caller.groups, known };
  return by === undefined ? undefined : { name: by, groups: groups ?? [], known };
}

/** The name of that person. */
export function byOf(caller: Caller, by?: string): string | undefined {
  return personOf(caller, { by })?.name;
}

/**
 * The command as the caller gives it. An answer of a caller who may not decide counts only for what a tool asks, and as the
 * result of a client's tool.
 */
export function signCommand(
  command: RunCommand & { groups?: readonly string[] | undefined },
  caller: Caller,
): RunCommand {
  const { groups, ...given } = command;
  if (given.type === 'note') return given;
  const sender = omitUndefined({ as: personOf(caller, { by: given.by, groups }) });
  if (given.type !== 'answer' || may(caller, 'decide')) return { ...given, ...sender };
  return { ...given, ...sender, to: 'result' };
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
