import type { Owner } from './store.ts';

/** The process behind a lease or a claim, as far as its journal says. `host` is for people. */
export type NamedProcess = Pick<Owner, 'host' | 'pid' | 'startedAt' | 'space' | 'instance'>;

/**
 * An owner as `run.claimed` names it in `by` and `replaces`: `host:pid`, and behind an `@` what tells this process
 * from every other, where that is known.
 */
export function nameOwner({ host, pid, startedAt, space, instance }: NamedProcess): string {
  if (space === undefined || instance === undefined) return `${host}:${pid}`;
  return `${host}:${pid}@${[space, instance, startedAt].map(encodeURIComponent).join('/')}`;
}

/** The process that `nameOwner` named; `undefined` for a name without what tells it from others. */
export function readOwnerName(name: string): NamedProcess | undefined {
  const [, host, pid, ...mark] = NAME.exec(name) ?? [];
  if (host === undefined) return undefined;
  const [space = '', instance = '', startedAt = ''] = mark.map(decodeSafely);
  return { host, pid: Number(pid), startedAt, space, instance };
}

/** The name for people: `host:pid`. */
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
