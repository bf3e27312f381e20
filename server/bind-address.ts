import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { EngineError } from '../protocol/error.ts';

/** Whether a host name or address can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  const name = bare(host);
  return name === 'localhost' || name === '::1' || (isIP(name) === 4 && Number(name.split('.')[0]) === 127);
}

/** Throws `input-invalid` for an address that others reach while no token is asked for. */
export function assertMayBind(host: string, token: string | undefined): void {
  if (isLoopback(host) || token !== undefined) return;
  throw new EngineError(
    'input-invalid',
    `On ${host} others could start and approve runs. Set a token with AGENTCHART_TOKEN or --token, or leave --host out to serve this machine alone.`,
  );
}

/**
 * Whether a `Host` header names this server: a loopback name, or what it is bound to. Bound to all
 * addresses it also goes by any address and the machine's name. Another name is a DNS rebinding.
 */
export function isOwnName(header: string, bound: string): boolean {
  const name = nameOf(header);
  if (name === null) return false;
  if (isLoopback(name) || name === bare(bound)) return true;
  const isEverywhere = bare(bound) === '0.0.0.0' || bare(bound) === '::';
  return isEverywhere && (isIP(name) !== 0 || name === hostname().toLowerCase());
}

/** `http://127.0.0.1:4100`, also for an address of version 6. */
export function urlOf(host: string, port: number): string {
  const name = bare(host);
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function nameOf(header: string): string | null {
  const [, name] = /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(header) ?? [];
  return name === undefined ? null : bare(name);
}

function bare(host: string): string {
  return host.toLowerCase().replace(/^\[(.*)\]$/, '$1');
}
