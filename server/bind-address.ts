import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { EngineError } from '../protocol/error.ts';

export function isLoopback(host: string): boolean {
  const name = normalize(host);
  return name === 'localhost' || name === '::1' || (isIP(name) === 4 && Number(name.split('.')[0]) === 127);
}

/** Throws `input-invalid` for an address that other machines can reach if there is no token. */
export function assertMayBind(host: string, { hasTokens }: { hasTokens: boolean }): void {
  if (isLoopback(host) || hasTokens) return;
  throw new EngineError(
    'input-invalid',
    `On ${host}, anyone who can reach it could start and approve runs. Set a token with AGENTCHART_TOKEN, --token or "tokens" of the configuration, or omit --host to serve only this machine.`,
  );
}

/** Whether a `Host` header is a loopback name, the bound address, or this machine; else DNS rebinding. */
export function isOwnName(header: string, bound: string): boolean {
  const name = nameOf(header);
  if (name === null) return false;
  if (isLoopback(name) || name === normalize(bound)) return true;
  const isWildcard = normalize(bound) === '0.0.0.0' || normalize(bound) === '::';
  return isWildcard && (isIP(name) !== 0 || name === hostname().toLowerCase());
}

/** The URL of a host and port, such as `http://127.0.0.1:4100`; puts IPv6 addresses in brackets. */
export function urlOf(host: string, port: number): string {
  const name = normalize(host);
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function nameOf(header: string): string | null {
  const [, name] = /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i.exec(header) ?? [];
  return name === undefined ? null : normalize(name);
}

function normalize(host: string): string {
  return host.toLowerCase().replace(/^\[(.*)\]$/, '$1');
}
