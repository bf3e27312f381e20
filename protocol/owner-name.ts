import type { Owner } from './store.ts';

/** The process of a lease or a claim, as recorded in a journal. `host` is for display only. */
export type NamedProcess = Pick<Owner, 'host' | 'pid' | 'startedAt' | 'space' | 'instance'>;

/** For `by` and `replaces` of `run.claimed`: `host:pid`, then `@` and the identity of the process if it is known. */
export function nameOwner({ host, pid, startedAt, space, instance }: NamedProcess): string {
  if (space === undefined || instance === undefined) return `${host}:${pid}`;
  return `${host}:${pid}@${[space, instance, startedAt].map(encodeURIComponent).join('/')}`;
}

/** Parses a name made by `nameOwner`; returns `undefined` for a name without a process identity. */
export function readOwnerName(name: string): NamedProcess | undefined {
  const [, host, pid, ...mark] = NAME.exec(name) ?? [];
  if (host === undefined) return undefined;
  const [space = '', instance = '', startedAt = ''] = mark.map(decodeSafely);
  return { host, pid: Number(pid), startedAt, space, instance };
}

/** Returns the name for display: `host:pid`. */
export function shortenOwnerName(name: string): string {
  const end = name.lastIndexOf('@');
  return end === -1 ? name : name.slice(0, end);
}

const NAME = /^(.*):(\d{1,10})@([^/@]*)\/([^/@]*)\/([^/@]*)$/s;

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
