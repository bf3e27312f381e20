import { hashText } from '../../protocol/content/hash-text.ts';
import { type NamedProcess, readOwnerName } from '../../protocol/owner-name.ts';
import type { Owner } from '../../protocol/store.ts';
import { GRACE_MS, type Host } from './host.ts';

/**
 * What this process knows about an owner. `self`: this copy of the engine. `alive` and `dead`: a process of the same
 * host, boot and PID namespace. `unknown`: any other owner. It no longer drives once its lease expires, but its tools
 * may still act.
 */
export type OwnerState = 'self' | 'alive' | 'dead' | 'unknown';

/** This process as the owner of leases. Each driver has its own id. */
export function makeOwner(id: string): Owner {
  self ??= describeSelf();
  return { id, ...self };
}

/** Looks up the owner's process, if it is on this host. */
export function checkOwner(owner: NamedProcess): OwnerState {
  return compareOwner(owner, makeOwner(''), findProcess);
}

/** Like `checkOwner`, for the name in a `run.claimed` event. Names without a process identity are `unknown`. */
export function checkOwnerName(name: string): OwnerState {
  const owner = readOwnerName(name);
  return owner === undefined ? 'unknown' : checkOwner(owner);
}

/** Whether the owner is known to be dead. If not, its lease has to expire. */
export function isOwnerDead(owner: Owner): boolean {
  return checkOwner(owner) === 'dead';
}

/** The result of a lookup by process id. `startedAt` is empty if unknown. */
type FoundProcess = { type: 'none' } | { type: 'found'; startedAt: string };

/** Judges `owner` from the process `here`. `find` is called only if process ids mean the same for both. */
export function compareOwner(
  owner: NamedProcess,
  here: NamedProcess,
  find: (pid: number) => FoundProcess,
): OwnerState {
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

/** In a browser tab or a worker there is no process to look up: such an owner is judged by its lease alone. */
function describeSelf(): Omit<Owner, 'id'> {
  const instance = crypto.randomUUID().slice(0, 13);
  if (!hasProcesses()) return { host: '', pid: 0, startedAt: '', space: '', instance };
  const { pid } = process;
  const found = findProcess(pid);
  const startedAt = found.type === 'found' ? found.startedAt : '';
  return { host: os().hostname(), pid, startedAt, space: findSpace(), instance };
}

/**
 * A digest of where process ids and start times mean the same as here; empty if unknown. The kernel's boot id changes
 * at each boot. Containers share it with their host but have their own PID namespaces. Owners of an earlier boot have
 * another space and are left to their leases: no machine identity that survives boots is safe from copied disks. Start
 * times depend on the time namespace of the reader.
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

/** Whether `/proc` belongs to this PID namespace: a namespace without its own sees another one's processes. */
function isProcOurs(): boolean {
  return fs().readlinkSync('/proc/self') === String(process.pid);
}

/** Empty on kernels before 5.6, which have no time namespaces. */
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

/** Reads a process's start time. A zombie counts as no process. */
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

/** Runs a system program and returns its output, in English and UTC. Not used on Linux, which has `/proc`. */
function runProgram(file: string, args: string[]): string {
  const { execFileSync } = process.getBuiltinModule('node:child_process');
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC0' };
  return execFileSync(file, args, { encoding: 'utf8', env });
}

/** Whether this runtime has processes as Node has them. Workers have the modules without their functions. */
function hasProcesses(): boolean {
  try {
    process.kill(process.pid, 0);
    return os().hostname() !== '';
  } catch {
    return false;
  }
}

/** Loaded on first use: a static import of `node:fs` would load Node's streams with the package. */
const fs = () => process.getBuiltinModule('node:fs');
const os = () => process.getBuiltinModule('node:os');

const LEASE_MS = 10_000;

/** How a run is driven in this process: by a new owner, with the lease of its host and a grace time of 5 s. */
export function driverOptions(host: Host) {
  return {
    host,
    owner: makeOwner(host.newId('driver')),
    isDead: isOwnerDead,
    checkOwner: checkOwnerName,
    leaseMs: host.leaseMs ?? LEASE_MS,
    graceMs: GRACE_MS,
  };
}
