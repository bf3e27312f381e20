import { signal } from '@preact/signals';
import { ApiError, request } from './request.ts';

const RETRY_MS = 1_000;

type Role = 'operator' | 'approver' | 'viewer';

const role = signal<Role | null>(null);

/** Reads the role of the page's token. Until then, and without a server, the page offers no commands. */
export async function readCaller(): Promise<void> {
  try {
    role.value = (await request<{ role: Role }>('/me')).role;
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) setTimeout(() => void readCaller(), RETRY_MS);
  }
}

/** Whether the person may look, but neither decide nor steer. */
export function mayOnlyRead(): boolean {
  return role.value === 'viewer';
}

/** Whether the person may decide calls. */
export function mayDecide(): boolean {
  return role.value === 'operator' || role.value === 'approver';
}

/** Whether the person may start, steer, edit and fork runs. */
export function mayOperate(): boolean {
  return role.value === 'operator';
}
