import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Owner } from '../protocol/store.ts';

/** This process as the owner of leases; each driver gets an id of its own. */
export function makeOwner(id: string): Owner {
  ownStart ??= startOf(process.pid) ?? '';
  return { id, host: thisHost(), pid: process.pid, startedAt: ownStart };
}

/**
 * Whether an owner is known to be gone: it ran on this machine, and no process has its id, or a
 * younger one does. An owner elsewhere, or one that cannot be told, is left to its lease.
 */
export function isOwnerDead(owner: Owner): boolean {
  if (owner.host !== thisHost()) return false;
  if (!exists(owner.pid)) return true;
  const started = startOf(owner.pid);
  return started !== null && owner.startedAt !== '' && started !== owner.startedAt;
}

let host: string | undefined;
let ownStart: string | undefined;

/** The machine and its boot: after a reboot every earlier owner is another host's, and left to its lease. */
function thisHost(): string {
  host ??= [hostname(), readBootId()].filter(part => part !== '').join('/');
  return host;
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** When a process started, in its platform's own unit; `null` where that cannot be found out. A zombie has ended. */
function startOf(pid: number): string | null {
  try {
    if (process.platform === 'linux') {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return state === 'Z' ? 'zombie' : (fields[18] ?? null);
    }
    if (process.platform === 'win32') return null;
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || null;
  } catch {
    return null;
  }
}
