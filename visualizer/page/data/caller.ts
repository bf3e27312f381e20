import { signal } from '@preact/signals';
import { request } from './request.ts';

type Role = 'operator' | 'approver' | 'viewer';

const role = signal<Role | null>(null);

/** Reads what the page's token may do. Until then, and without a server, nothing is offered. */
export async function readCaller(): Promise<void> {
  try {
    role.value = (await request<{ role: Role }>('/me')).role;
  } catch {
    role.value = null;
  }
}

/** Whether the person may decide calls. */
export function mayDecide(): boolean {
  return role.value === 'operator' || role.value === 'approver';
}

/** Whether the person may start, steer, edit and fork runs. */
export function mayOperate(): boolean {
  return role.value === 'operator';
}
