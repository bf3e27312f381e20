import { signal } from '@preact/signals';

const KEY = 'agentchart.by';

/** The person's name, which is journaled with every decision; empty if no name is set. */
export const actingName = signal(localStorage.getItem(KEY) ?? '');

/** Sets the person's name for this browser. */
export function setActingName(name: string): void {
  actingName.value = name;
  localStorage.setItem(KEY, name);
}

/** Returns the person's name as a member of commands. */
export function actingAs(): { by?: string } {
  const name = actingName.value.trim();
  return name === '' ? {} : { by: name };
}
