import { signal } from '@preact/signals';
import { requestServer } from './request.ts';

/** How many decisions are open in all runs; 0 until the server has said. */
export const openItems = signal(0);

export async function readOpenItems(): Promise<void> {
  const { waiting, items } = await requestServer<{ waiting?: number; items: unknown[] }>('/inbox?limit=100');
  openItems.value = waiting ?? items.length;
}
