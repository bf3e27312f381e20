import { signal } from '@preact/signals';
import { RequestError, requestServer } from './request.ts';

const RETRY_MS = 1_000;

/** The names that a server gives to callers whose token has no name of its own. */
const UNNAMED = ['anyone', 'operator'];

type Caller = { name: string; role: 'operator' | 'approver' | 'viewer' };

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

const isOne = (...roles: Caller['role'][]): boolean =>
  caller.value !== null && roles.includes(caller.value.role);

export const mayOnlyRead = (): boolean => isOne('viewer');
export const mayDecide = (): boolean => isOne('operator', 'approver');
export const mayOperate = (): boolean => isOne('operator');

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
