import { signal } from '@preact/signals';
import { requestServer } from './request.ts';

/** How many decisions are open in all runs, such as `7` or `100+`; empty for none, and until the server has said. */
export const openItems = signal('');

export async function readOpenItems(): Promise<void> {
  const { waiting, items } = await requestServer<{ waiting?: number; items: unknown[] }>('/inbox?limit=100');
  openItems.value = items.length === 0 ? '' : `${waiting ?? `${items.length}+`}`;
}
