import { signal } from '@preact/signals';
import type { Right, Role } from '../../../access/role.ts';
import { describeBar, describeDuties, findOpenBar } from '../../../machines/duties.ts';
import type { JsonOpenItem } from '../../../protocol/run-view.ts';
import { RequestError, requestServer } from './request.ts';

const RETRY_MS = 1_000;

/** The names that a server gives to callers whose token has no name of its own. */
const UNNAMED = ['anyone', 'operator'];

type Caller = { name: string; role: Role; rights: readonly Right[]; can: string; groups: readonly string[] };

const caller = signal<Caller | null>(null);

/** Reads the caller of the page's token. Until then, and without a server, the page offers no commands. */
export async function readCaller(): Promise<void> {
  try {
    caller.value = await requestServer<Caller>('/me');
  } catch (error) {
    if (error instanceof RequestError && error.status === 0) setTimeout(() => void readCaller(), RETRY_MS);
  }
}

/** The name of the page's token, which the server journals with decisions; empty if it has none. */
export function tokenName(): string {
  const name = caller.value?.name ?? '';
  return UNNAMED.includes(name) ? '' : name;
}

export const mayOperate = (): boolean => caller.value?.role === 'operator';

const KEY = 'agentchart.by';

/** The person's name, which is journaled with every decision; empty if no name is set. */
export const actingName = signal(localStorage.getItem(KEY) ?? '');

export function setActingName(name: string): void {
  actingName.value = name;
  localStorage.setItem(KEY, name);
}

export function actingAs(): { by?: string } {
  const name = actingName.value.trim();
  return name === '' ? {} : { by: name };
}

/** Who decides on this page, as the server will see it: the token, or whom the person says they are, without groups. */
function decider(): { by?: string; groups?: readonly string[] } {
  const name = tokenName();
  return name === '' ? actingAs() : { by: name, groups: caller.value?.groups ?? [] };
}

/** Why the person at this page may not decide the call; `null` if they may. Empty while it is not known who that is. */
export function barOf(call: JsonOpenItem): string | null {
  if (caller.value === null) return '';
  const right = call.kind === 'result' || call.kind === 'question' ? 'result' : 'decide';
  if (!caller.value.rights.includes(right)) return caller.value.can;
  const bar = call.kind === 'result' ? null : findOpenBar(call, decider());
  if (bar === null) return null;
  const { by = '' } = decider();
  return `You cannot decide this: ${describeBar(bar, by)}. It needs ${describeDuties(call)}.`;
}

/** Whether the person at this page has approved a call that needs further approvals. */
export function hasApproved({ approvedBy = [] }: JsonOpenItem): boolean {
  const { by } = decider();
  return by !== undefined && approvedBy.includes(by);
}

/** Whether the call waits for this person. */
export const isMine = (call: JsonOpenItem): boolean => barOf(call) === null && !hasApproved(call);
