import { type NamedProcess, readOwnerName } from '../../protocol/owner-name.ts';
import type { Owner } from '../../protocol/store.ts';
import { hashText } from '../journal/digest.ts';

/**
 * What this process knows of an owner. `self`: this copy of the engine in this process. `dead`: it ran on this host,
 * boot and PID namespace, and its process has ended. `unknown`: it ran elsewhere, or cannot be told; only the end
 * of its lease says that it drives no more, and nothing says that it does not act.
 */
export type OwnerStanding = 'self' | 'alive' | 'dead' | 'unknown';

/** This process as the owner of leases; each driver gets an id of its own. */
export function makeOwner(id: string): Owner {
  self ??= describeSelf();
  return { id, ...self };
}

/** Looks the owner's process up, if it ran where this one does. */
export function judgeOwner(owner: NamedProcess): OwnerStanding {
  return compareOwner(owner, makeOwner(''), findProcess);
}

/** The same of an owner as `run.claimed` names it in `by` or `replaces`; `unknown` for a name of an earlier release. */
export function judgeOwnerName(name: string): OwnerStanding {
  const owner = readOwnerName(name);
  return owner === undefined ? 'unknown' : judgeOwner(owner);
}

/** Whether the owner is known to be gone; one that cannot be told is left to its lease. */
export function isOwnerDead(owner: Owner): boolean {
  return judgeOwner(owner) === 'dead';
}

/** A process by its id: none has it, or one that started then (empty where that cannot be known). */
export type FoundProcess = { type: 'none' } | { type: 'found'; startedAt: string };

/** Judges `owner` from where `here` runs. `find` is asked only for an id that means the same process in both places. */
export function compareOwner(
  owner: NamedProcess,
  here: NamedProcess,
  find: (pid: number) => FoundProcess,
): OwnerStanding {
  if (here.instance !== undefined && owner.instance === here.instance && owner.pid === here.pid)
    return 'self';
  if (owner.space === undefined || owner.space === '' || owner.space !== here.space) return 'unknown';
  if (!Number.isInteger(owner.pid) || owner.pid < 1 || owner.pid > MAX_PID) return 'unknown';
  const found = find(owner.pid);
  if (found.type === 'none') return 'dead';
  if (found.startedAt === '' || owner.startedAt === '') return 'unknown';
  return found.startedAt === owner.startedAt ? 'alive' : 'dead';
}

const MAX_PID = 2 ** 31 - 1;

let self: Omit<Owner, 'id'> | undefined;

function describeSelf(): Omit<Owner, 'id'> {
  const { pid } = process;
  const found = findProcess(pid);
  const startedAt = found.type === 'found' ? found.startedAt : '';
  return {
    host: os().hostname(),
    pid,
    startedAt,
    space: findSpace(),
    instance: crypto.randomUUID().slice(0, 13),
  };
}

/**
 * Where process ids mean the same processes as here. The boot id is the kernel's, and new at each boot: containers
 * share it with their host and with each other, whatever they are called, and differ in their PID namespaces. An
 * owner of an earlier boot has another space, because no identity of a machine across boots is safe from copies of
 * its disk; it is left to its lease. Start times are counted in the time namespace of the reader.
 * Source: proc(5), namespaces(7), time_namespaces(7); `kern.bootsessionuuid` is Darwin's.
 */
function findSpace(): string {
  try {
    if (process.platform === 'linux') {
      if (!isProcOurs()) return '';
      const boot = fs().readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
      return digest(boot, fs().readlinkSync('/proc/self/ns/pid'), readTimeNamespace());
    }
    if (process.platform !== 'darwin') return '';
    return digest(runProgram('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid']).trim());
  } catch {
    return '';
  }
}

/** In a PID namespace with no `/proc` of its own, the one that is mounted names other processes. */
function isProcOurs(): boolean {
  return fs().readlinkSync('/proc/self') === String(process.pid);
}

/** Kernels before 5.6 have none. */
function readTimeNamespace(): string {
  try {
    return fs().readlinkSync('/proc/self/ns/time');
  } catch {
    return '';
  }
}

function digest(boot: string, ...namespaces: string[]): string {
  return boot === '' ? '' : hashText([os().hostname(), boot, ...namespaces].join('\n')).slice(0, 16);
}

function findProcess(pid: number): FoundProcess {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return { type: 'none' };
  }
  return readProcess(pid);
}

/** A zombie has ended. */
function readProcess(pid: number): FoundProcess {
  try {
    if (process.platform === 'linux') {
      const stat = fs().readFileSync(`/proc/${pid}/stat`, 'utf8');
      const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return state === 'Z' ? { type: 'none' } : { type: 'found', startedAt: fields[18] ?? '' };
    }
    if (process.platform === 'win32') return { type: 'found', startedAt: '' };
    const text = runProgram('ps', ['-o', 'lstart=', '-p', String(pid)]);
    return { type: 'found', startedAt: text.trim() };
  } catch {
    return { type: 'found', startedAt: '' };
  }
}

/** What a program of this system prints, in English and UTC. Loads `node:child_process`, which Linux does without. */
function runProgram(file: string, args: string[]): string {
  const { execFileSync } = process.getBuiltinModule('node:child_process');
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC0' };
  return execFileSync(file, args, { encoding: 'utf8', env });
}

/** Asked for when an owner is made: a static import of `node:fs` loads Node's streams with the package. */
const fs = () => process.getBuiltinModule('node:fs');
const os = () => process.getBuiltinModule('node:os');
